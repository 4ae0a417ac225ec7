#!lua flags=allow-oom
--[[
  leave: a node is one no longer.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  news  what the others are told, JSON

  Returns  the number of this change
  Events   news
]]

local root, node, news = KEYS[1], ARGV[1], ARGV[2]

--- @include lib/tell

redis.call("ZREM", root .. ":nodes", node)
redis.call("DEL", root .. ":at:" .. node)
return tell(root, news)
