#!lua flags=allow-oom
--[[
  duty_release: a node failed at a duty and releases it for another to try.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  group  quoted
    3  id
    4  again  ms after which this node may be chosen for it again

  Returns  "OK" | "NOT_YOURS"
  Events   none
]]

local root, node, group, id = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local again = tonumber(ARGV[4])

--- @include lib/publish_change
--- @include lib/duty_keys

local keys = duties(root, group)

-- Check.
if redis.call("HGET", keys.holders, id) ~= node then
  return "NOT_YOURS"
end

-- Move.
local failed = cjson.decode(redis.call("HGET", keys.tried, id) or "{}")
local recent = { [node] = now() }
for other, at in pairs(failed) do
  if at > now() - again and other ~= node then
    recent[other] = at
  end
end
redis.call("HSET", keys.tried, id, cjson.encode(recent))
redis.call("HSET", keys.holders, id, "")
return "OK"
