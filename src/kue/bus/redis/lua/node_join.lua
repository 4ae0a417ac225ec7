#!lua flags=allow-oom
--[[
  node_join: become a node, or rejoin with the current addresses.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  change  published to the other nodes, JSON
    3  …       addresses, at most 1,000; `change_addresses` adds more

  Returns  the number of this change
  Events   change
]]

local root, node, change = KEYS[1], ARGV[1], ARGV[2]

--- @include lib/publish_change

local addresses = root .. ":at:" .. node
redis.call("DEL", addresses)
if #ARGV > 2 then
  redis.call("SADD", addresses, unpack(ARGV, 3))
end
redis.call("ZADD", root .. ":nodes", now(), node)
return publish(root, change)
