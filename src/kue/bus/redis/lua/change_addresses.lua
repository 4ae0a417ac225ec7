#!lua flags=allow-oom
--[[
  change_addresses: a node starts or stops listening at addresses.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  change  published to the other nodes, JSON
    3  added   how many of the following are new
    4  …       addresses, at most 1,000: new ones first, then removed ones

  Returns  the number of this change | "GONE" (not a node any more)
  Events   change
]]

local root, node, change, added = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])

--- @include lib/publish_change

-- Check.
if not redis.call("ZSCORE", root .. ":nodes", node) then
  return "GONE"
end

-- Move.
local addresses = root .. ":at:" .. node
if added > 0 then
  redis.call("SADD", addresses, unpack(ARGV, 4, 3 + added))
end
if #ARGV > 3 + added then
  redis.call("SREM", addresses, unpack(ARGV, 4 + added))
end

-- Publish.
return publish(root, change)
