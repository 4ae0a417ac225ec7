#!lua flags=allow-oom
--[[
  lock_queues: renew the lease of a process; join, leave and check the queues of locks.

  The first entry in the queue of a lock holds it.  A process numbers its entries.  The
  ticket of an entry is its position in the queue, and its fencing token once it holds
  the lock.

  Processes whose lease has expired are removed, with all their entries; but not if Redis
  was restarted or replaced in the meantime, because then no process could renew.

  KEYS
    1  root  tag that every key of the locks begins with
  ARGV
    1  process
    2  lease   ms
    3  number  of this step; one that arrives after its successor changes nothing
    4  …       actions, each of four words: what, entry, lock, ticket
               "+"  join the queue
               "-"  leave it
               "?"  check
               "!"  rejoin an empty queue with the previous ticket

  Returns  the time of the first step in this Redis, which stays the same as long as no
           data is lost; ms until the first lease expires; how many entries the process
           has; and for each action the ticket: positive for the holder of the lock,
           negative for a waiting entry, 0 for one that is not in the queue
           | "LATE"
  Events   entry, tab, ticket to the process whose entry is now the first
]]

local root, process, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local processes, server = root .. ":processes", root .. ":server"
local tickets = root .. ":ticket"
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]

local function queue(lock)
  return root .. ":line:" .. lock
end

local function entries(owner)
  return root .. ":of:" .. owner
end

-- Never repeats, not even in a Redis that lost its data.
local function next_ticket()
  local ticket = math.max(tonumber(redis.call("GET", tickets) or 0) + 1, micros)
  redis.call("SET", tickets, string.format("%.0f", ticket))
  return ticket
end

local function first(lock)
  return redis.call("ZRANGE", queue(lock), 0, 0)[1]
end

local function ticket_of(entry, lock)
  local token = process .. "." .. entry
  local ticket = tonumber(redis.call("ZSCORE", queue(lock), token) or 0)
  return first(lock) == token and ticket or -ticket
end

local function join(entry, lock, ticket)
  redis.call("HSET", entries(process), entry, lock)
  redis.call("ZADD", queue(lock), "NX", ticket, process .. "." .. entry)
end

local function leave(owner, entry, lock)
  local token = owner .. "." .. entry
  local was_first = first(lock) == token
  redis.call("HDEL", entries(owner), entry)
  redis.call("ZREM", queue(lock), token)
  local next = redis.call("ZRANGE", queue(lock), 0, 0, "WITHSCORES")
  if was_first and next[1] then
    local other, number = string.match(next[1], "^(%x+)%.(%d+)$")
    redis.call("SPUBLISH", root .. ":to:" .. other, number .. "\t" .. next[2])
  end
end

local function remove(owner)
  local all = redis.call("HGETALL", entries(owner))
  for i = 1, #all, 2 do
    if all[i] ~= "step" then
      leave(owner, all[i], all[i + 1])
    end
  end
  redis.call("DEL", entries(owner))
  redis.call("ZREM", processes, owner)
end

local function is_another_redis()
  local id = string.match(redis.call("INFO", "server"), "run_id:(%x+)")
  local was = redis.call("HGET", server, "run")
  redis.call("HSET", server, "run", id)
  return was ~= id
end

-- Check.
local last = redis.call("HGET", entries(process), "step")
if last and tonumber(last) > tonumber(ARGV[3]) then
  return "LATE"
end

-- Move: leases first.
redis.call("HSET", entries(process), "step", ARGV[3])
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

local replies = {}
for i = 4, #ARGV, 4 do
  local what, entry, lock = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if what == "+" then
    if ticket_of(entry, lock) == 0 then
      join(entry, lock, next_ticket())
    end
  elseif what == "!" then
    if not first(lock) then
      join(entry, lock, ARGV[i + 3])
    end
  elseif what == "-" then
    leave(process, entry, lock)
  end
  replies[#replies + 1] = ticket_of(entry, lock)
end

-- The number of the last step is kept while an earlier one could be on its way.
local count = redis.call("HLEN", entries(process)) - 1
if count > 0 then
  redis.call("PERSIST", entries(process))
else
  redis.call("ZREM", processes, process)
  redis.call("PEXPIRE", entries(process), 60000)
end
redis.call("HSETNX", server, "born", string.format("%.0f", micros))
local soonest = redis.call("ZRANGE", processes, 0, 0, "WITHSCORES")[2]
return {
  redis.call("HGET", server, "born"),
  soonest and soonest - now or lease,
  count,
  unpack(replies),
}
