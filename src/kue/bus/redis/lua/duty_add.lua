#!lua flags=allow-oom
--[[
  duty_add: a node holds a duty, which others will take over when it dies.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  group   quoted
    3  id
    4  record  the duty, JSON

  Returns  "OK" | "TAKEN" (another node holds it) | "STRUCK" (it has ended)
           | "FULL" (the group has 1,000)
  Events   none
]]

local root, node, group, id, record = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]

--- @include lib/duty_keys

local keys = duties(root, group)

-- Check.
if redis.call("EXISTS", keys.struck .. id) == 1 then
  return "STRUCK"
end
local holder = redis.call("HGET", keys.holders, id)
if holder and holder ~= node then
  return "TAKEN"
end
if not holder and redis.call("HLEN", keys.holders) >= 1000 then
  return "FULL"
end

-- Move.
redis.call("SADD", keys.nodes, node)
redis.call("HSET", keys.records, id, record)
redis.call("HSET", keys.holders, id, node)
return "OK"
