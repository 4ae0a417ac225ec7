#!lua flags=allow-oom
--[[
  map_remove: remove an entry, optionally only if it has a certain value.

  KEYS
    1  root  tag that every key of the slice begins with
  ARGV
    1  caller
    2  number  of the call
    3  map
    4  key
    5  old     JSON; empty for any value

  Returns  "+" and the previous value | "-" (there was none)
  Events   none
]]

local root, name = KEYS[1], ARGV[3]
local key, old = ARGV[4], ARGV[5]

--- @include lib/once
--- @include lib/map
--- @include lib/live_entry
--- @include lib/tidy

-- Check.
local before = answered()
if before then
  return before
end
local current = find(key)

-- Move.
if current and (old == "" or current == old) then
  remove(key)
  tidy()
end
return answer(current and "+" .. current or "-")
