#!lua flags=allow-oom
--[[
  node_leave: a node stops being one.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  change  published to the other nodes, JSON

  Returns  the number of this change
  Events   change
]]

local root, node, change = KEYS[1], ARGV[1], ARGV[2]

--- @include lib/publish_change

redis.call("ZREM", root .. ":nodes", node)
redis.call("DEL", root .. ":at:" .. node)
return publish(root, change)
