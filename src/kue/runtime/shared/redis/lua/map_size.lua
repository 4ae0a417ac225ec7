#!lua flags=no-writes
--[[
  map_size: count the entries that have not expired.

  KEYS
    1  root  tag that every key of the slice begins with
  ARGV
    1  map

  Returns  a number
  Events   none
]]

local root, name = KEYS[1], ARGV[1]

--- @include lib/map

return redis.call("HLEN", map) - redis.call("ZCOUNT", ends, "-inf", now)
