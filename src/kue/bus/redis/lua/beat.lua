#!lua flags=allow-oom
--[[
  beat: a node lives; nodes that do not are removed, by whoever beats first.

  A node is dead when it has not beaten for a lease.  One whose process was killed has
  lost its subscription, too, and is known to be dead as soon as a beat is overdue.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  lease    ms
    3  overdue  ms after a beat at which the next one should have come

  Returns  the number of the last change | "GONE" (it is no node any more)
           | "DEAF" (Redis knows of no subscription of this node, be it one or not)
  Events   {"left": node} for each that was removed, at most 100
]]

local root, node = KEYS[1], ARGV[1]
local lease, overdue = tonumber(ARGV[2]), tonumber(ARGV[3])

--- @include lib/tell

local function hears(other)
  return redis.call("PUBSUB", "SHARDNUMSUB", root .. ":to:" .. other)[2] > 0
end

-- Check.
local nodes = root .. ":nodes"
if not redis.call("ZSCORE", nodes, node) then
  -- One that joined before it listens would be removed again at once.
  return hears(node) and "GONE" or "DEAF"
end

-- Move.
redis.call("ZADD", nodes, now(), node)
local late = redis.call("ZRANGEBYSCORE", nodes, "-inf", now() - overdue,
  "WITHSCORES", "LIMIT", 0, 100)
for i = 1, #late, 2 do
  local other, beat = late[i], tonumber(late[i + 1])
  if beat < now() - lease or not hears(other) then
    redis.call("ZREM", nodes, other)
    redis.call("DEL", root .. ":at:" .. other)
    tell(root, '{"node":"' .. other .. '","left":true}')
  end
end

if not hears(node) then
  return "DEAF"
end
return last(root)
