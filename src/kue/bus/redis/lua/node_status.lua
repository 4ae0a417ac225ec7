#!lua
--[[
  node_status: write the status of a node, and return whether someone inspects messages.

  Without allow-oom: a status can wait until Redis has room again.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  facts  the status, JSON
    3  lease  ms after which it expires

  Returns  "SEEN" (someone inspects messages) | "UNSEEN"
  Events   none
]]

local root, node, facts, lease = KEYS[1], ARGV[1], ARGV[2], ARGV[3]

redis.call("SET", root .. ":facts:" .. node, facts, "PX", lease)
if redis.call("EXISTS", root .. ":seen") == 1 then
  return "SEEN"
end
return "UNSEEN"
