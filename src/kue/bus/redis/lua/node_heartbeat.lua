#!lua flags=allow-oom
--[[
  node_heartbeat: heartbeat of a node, which also removes dead nodes.

  A node is dead when it has sent no heartbeat for a lease.  One whose process was killed
  has lost its subscription, too, and is dead as soon as a heartbeat is overdue.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  lease    ms
    3  overdue  ms after a heartbeat at which the next one should have come

  Returns  the number of the last change | "GONE" (not a node any more)
           | "DEAF" (Redis has no subscription of this node, whether it is a node or not)
  Events   {"left": node} for each node removed, at most 100
]]

local root, node = KEYS[1], ARGV[1]
local lease, overdue = tonumber(ARGV[2]), tonumber(ARGV[3])

--- @include lib/publish_change

local function is_subscribed(other)
  return redis.call("PUBSUB", "SHARDNUMSUB", root .. ":to:" .. other)[2] > 0
end

-- Check.
local nodes = root .. ":nodes"
if not redis.call("ZSCORE", nodes, node) then
  -- A node that joined before it subscribed would be removed again at once.
  return is_subscribed(node) and "GONE" or "DEAF"
end

-- Move.
redis.call("ZADD", nodes, now(), node)
local late = redis.call("ZRANGEBYSCORE", nodes, "-inf", now() - overdue,
  "WITHSCORES", "LIMIT", 0, 100)
for i = 1, #late, 2 do
  local other, heartbeat = late[i], tonumber(late[i + 1])
  if heartbeat < now() - lease or not is_subscribed(other) then
    redis.call("ZREM", nodes, other)
    redis.call("DEL", root .. ":at:" .. other)
    publish(root, '{"node":"' .. other .. '","left":true}')
  end
end

if not is_subscribed(node) then
  return "DEAF"
end
return last(root)
