#!lua flags=allow-oom
--[[
  renew: heartbeat of a worker, which renews its lease.

  It may come late: a run is the worker's until it is reclaimed.  Only orders are deleted
  when they are returned; all else in the reply follows from the current state, so that a
  lost reply loses only orders.  Reads the given runs, which the caller bounds, and when
  maintenance is due next, but nothing of other workers.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  its name
    5  lease   ms from now on that its lease lasts
    6  info    its status as JSON, or empty
    7  orders  1 to return and delete its orders; else empty
    8  late    ms after which maintenance that is due is overdue
    then for each run to check: type, id, token

  Returns  {lost, cancel, pause, orders, overdue}: ids of given runs that are no longer
           the worker's; of the others those that are to be cancelled: id, reason as
           JSON; its pause, if in force; its orders; 1 if maintenance is overdue
  Events   none
]]

--- @include lib/prelude
--- @include lib/limits

local worker, lease, info = ARGV[4], tonumber(ARGV[5]), ARGV[6]

-- Check.
if info ~= "" then
  redis.call("HLEN", root .. ":info")
end
local lost, mine = {}, {}
for at = 9, #ARGV, 3 do
  if redis.call("HGET", queue(ARGV[at]) .. "active", ARGV[at + 1]) == ARGV[at + 2] then
    mine[#mine + 1] = ARGV[at + 1]
  else
    lost[#lost + 1] = ARGV[at + 1]
  end
end
local cancel = {}
if #mine > 0 and redis.call("EXISTS", root .. ":cancelling") == 1 then
  for i, asked in ipairs(redis.call("HMGET", root .. ":cancelling", unpack(mine))) do
    if asked then
      cancel[#cancel + 1] = mine[i]
      cancel[#cancel + 1] = string.match(asked, "\t[^\t]*\t(.*)$") or ""
    end
  end
end
local pause = redis.call("HGET", root .. ":paused", ":" .. worker)
-- Damage there is reported by maintenance: it must not cost a worker its runs.
local due = tonumber(redis.pcall("ZRANGE", root .. ":agenda", 0, 0, "WITHSCORES")[2])
local overdue = due and now - due > tonumber(ARGV[8]) and 1 or 0
local ordered = ARGV[7] ~= "" and redis.call("HGET", root .. ":orders", worker)

-- Move.
redis.call("ZADD", root .. ":workers", now + lease, worker)
if info ~= "" then
  redis.call("HSET", root .. ":info", worker, info)
end
local orders = {}
if ordered then
  redis.call("HDEL", root .. ":orders", worker)
  -- Bounded: with very long damaged text the search would take hours.
  for word, till in string.gmatch(string.sub(ordered, 1, 1000), "(%a+)=(%d+)") do
    if tonumber(till) > now then
      orders[#orders + 1] = word
    end
  end
end
return { lost, cancel, is_paused(pause) and pause or "", orders, overdue }
