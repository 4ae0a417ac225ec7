#!lua
--[[
  counter_set: set a counter, if it has the expected value.

  KEYS
    1  root  tag that every key of the slice begins with
  ARGV
    1  caller
    2  number  of the call
    3  counter
    4  expected value
    5  new value

  Returns  "+" | "-" (it has another value)
  Events   none
]]

local root, key = KEYS[1], KEYS[1] .. ":counter:" .. ARGV[3]

--- @include lib/once

-- Check.
local before = answered()
if before then
  return before
end
if (redis.call("GET", key) or "0") ~= ARGV[4] then
  return answer("-")
end

-- Move.
redis.call("SET", key, ARGV[5])
return answer("+")
