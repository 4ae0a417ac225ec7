#!lua flags=no-writes
--[[
  map_get: read an entry.

  KEYS
    1  root  tag that every key of the slice begins with
  ARGV
    1  map
    2  key

  Returns  the value as JSON, nil for none
  Events   none
]]

local root, name = KEYS[1], ARGV[1]

--- @include lib/map
--- @include lib/live_entry

return find(ARGV[2])
