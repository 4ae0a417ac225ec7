#!lua flags=allow-oom
--[[
  group_leave: a node leaves its group on purpose, and its duties end.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  group  quoted

  Returns  how many duties it had, at most 1,000
  Events   none
]]

local root, node, group = KEYS[1], ARGV[1], ARGV[2]

--- @include lib/duty_keys

local keys = duties(root, group)
local count = 0
local all = redis.call("HGETALL", keys.holders)
for i = 1, #all, 2 do
  if all[i + 1] == node then
    strike(keys, all[i])
    count = count + 1
  end
end
redis.call("SREM", keys.nodes, node)
return count
