#!lua flags=allow-oom
--[[
  map_clear: remove all entries; Redis frees them in the background.

  KEYS
    1  root  tag that every key of the slice begins with
  ARGV
    1  caller
    2  number  of the call
    3  map

  Returns  "-"
  Events   none
]]

local root, name = KEYS[1], ARGV[3]

--- @include lib/once
--- @include lib/map

-- Check.
local before = answered()
if before then
  return before
end

-- Move.
redis.call("UNLINK", map, ends)
return answer("-")
