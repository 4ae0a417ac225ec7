#!lua flags=allow-oom
--[[
  read_nodes: read the nodes and the addresses at which they listen.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  address  only this address; empty for all addresses

  Returns  the number of the last change, then for each of at most 10,000 nodes its
           name and a list of addresses
  Events   none
]]

local root, address = KEYS[1], ARGV[1]

--- @include lib/publish_change

local seen = { last(root) }
for _, node in ipairs(redis.call("ZRANGE", root .. ":nodes", 0, 9999)) do
  local addresses = root .. ":at:" .. node
  local found = {}
  if address == "" then
    found = redis.call("SMEMBERS", addresses)
  elseif redis.call("SISMEMBER", addresses, address) == 1 then
    found = { address }
  end
  seen[#seen + 1] = node
  seen[#seen + 1] = found
end
return seen
