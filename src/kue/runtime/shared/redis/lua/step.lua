#!lua flags=allow-oom
--[[
  step: a process lives, and comes to lines, leaves them and looks at them.

  Whoever is first in the line of a lock holds it.  A place is numbered by its process; its
  ticket says where in the line it is, and is its fencing number once it holds the lock.

  A step renews the lease of its process.  Processes whose lease has ended are removed,
  with all their places; not so when Redis was restarted or replaced meanwhile, for then
  nobody could renew anything.

  KEYS
    1  root  tag that every key of the locks begins with
  ARGV
    1  process
    2  lease   ms
    3  number  of this step; one that arrives after its successor changes nothing
    4  …       acts, each of four words: what, place, lock, ticket
               "+"  come to the line
               "-"  leave it
               "?"  look
               "!"  be back in a line that is empty, with the ticket of before

  Returns  when the first step was made here, which stays the same as long as nothing gets
           lost; ms until the first lease ends; and for each act the ticket: as it is for
           whoever holds the lock, negative for those who wait, 0 for those not in the line
           | "LATE"
  Events   to each process the number of its place that is now the first
]]

local root, process, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local processes, server, tickets = root .. ":processes", root .. ":server", root .. ":ticket"
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]

local function line(lock)
  return root .. ":line:" .. lock
end

local function places(of)
  return root .. ":of:" .. of
end

-- Never repeats, not even in a Redis that lost all it had.
local function next_ticket()
  local ticket = math.max(tonumber(redis.call("GET", tickets) or 0) + 1, micros)
  redis.call("SET", tickets, string.format("%.0f", ticket))
  return ticket
end

local function first(lock)
  return redis.call("ZRANGE", line(lock), 0, 0)[1]
end

local function ticket_of(place, lock)
  local token = process .. "." .. place
  local ticket = tonumber(redis.call("ZSCORE", line(lock), token) or 0)
  return first(lock) == token and ticket or -ticket
end

local function come(place, lock, ticket)
  redis.call("HSET", places(process), place, lock)
  redis.call("ZADD", line(lock), "NX", ticket, process .. "." .. place)
end

local function leave(who, place, lock)
  local token = who .. "." .. place
  local was_first = first(lock) == token
  redis.call("HDEL", places(who), place)
  redis.call("ZREM", line(lock), token)
  local next = first(lock)
  if was_first and next then
    local other, its = string.match(next, "^(%x+)%.(%d+)$")
    redis.call("SPUBLISH", root .. ":to:" .. other, its)
  end
end

local function remove(who)
  local all = redis.call("HGETALL", places(who))
  for i = 1, #all, 2 do
    if all[i] ~= "step" then
      leave(who, all[i], all[i + 1])
    end
  end
  redis.call("DEL", places(who))
  redis.call("ZREM", processes, who)
end

local function is_another_redis()
  local id = string.match(redis.call("INFO", "server"), "run_id:(%x+)")
  local was = redis.call("HGET", server, "run")
  redis.call("HSET", server, "run", id)
  return was ~= id
end

-- Check.
local last = redis.call("HGET", places(process), "step")
if last and tonumber(last) > tonumber(ARGV[3]) then
  return "LATE"
end

-- Move: leases first.
redis.call("HSET", places(process), "step", ARGV[3])
redis.call("ZADD", processes, now + lease, process)
if is_another_redis() then
  for _, other in ipairs(redis.call("ZRANGE", processes, 0, -1)) do
    redis.call("ZADD", processes, "GT", now + lease, other)
  end
else
  local dead = redis.call("ZRANGEBYSCORE", processes, "-inf", now, "LIMIT", 0, 10)
  for _, other in ipairs(dead) do
    remove(other)
  end
end

local answers = {}
for i = 4, #ARGV, 4 do
  local what, place, lock = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if what == "+" then
    if ticket_of(place, lock) == 0 then
      come(place, lock, next_ticket())
    end
  elseif what == "!" then
    if not first(lock) then
      come(place, lock, ARGV[i + 3])
    end
  elseif what == "-" then
    leave(process, place, lock)
  end
  answers[#answers + 1] = ticket_of(place, lock)
end

-- The number of its last step is kept for as long as an earlier one could be on its way.
if redis.call("HLEN", places(process)) > 1 then
  redis.call("PERSIST", places(process))
else
  redis.call("ZREM", processes, process)
  redis.call("PEXPIRE", places(process), 60000)
end
redis.call("HSETNX", server, "born", string.format("%.0f", micros))
local soonest = redis.call("ZRANGE", processes, 0, 0, "WITHSCORES")[2]
return {
  redis.call("HGET", server, "born"),
  soonest and soonest - now or lease,
  unpack(answers),
}
