#!lua
--[[
  counter_add: add a number to a counter.

  KEYS
    1  root  tag that every key of the slice begins with
  ARGV
    1  caller
    2  number  of the call
    3  counter
    4  amount to add

  Returns  "+" and the sum | "-" and the current value (the sum has more than 64 bits)
  Events   none
]]

local root, key = KEYS[1], KEYS[1] .. ":counter:" .. ARGV[3]

--- @include lib/once

-- Check.
local before = answered()
if before then
  return before
end

-- Move.  Read with GET: Lua's numbers have 53 bits.
local added = redis.pcall("INCRBY", key, ARGV[4])
local current = redis.call("GET", key)
if type(added) == "table" then
  if not string.find(added.err, "overflow", 1, true) then
    return added
  end
  return answer("-" .. current)
end
return answer("+" .. current)
