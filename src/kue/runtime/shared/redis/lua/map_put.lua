#!lua
--[[
  map_put: put a value, on a condition.

  KEYS
    1  root  tag that every key of the slice begins with
  ARGV
    1  caller
    2  number  of the call
    3  map
    4  key
    5  value   JSON
    6  ttl     ms, 0 for none
    7  where   "any" | "absent" | "present" | "same" (the current value must be `old`)
    8  old     JSON

  Returns  "+" and the previous value | "-" (there was none)
  Events   none
]]

local root, name, key, value = KEYS[1], ARGV[3], ARGV[4], ARGV[5]
local ttl, where, old = tonumber(ARGV[6]), ARGV[7], ARGV[8]

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
local is_put = where == "any"
  or (where == "absent" and not current)
  or (where == "present" and current)
  or (where == "same" and current == old)

-- Move.
if is_put then
  redis.call("HSET", map, key, value)
  if ttl > 0 then
    redis.call("ZADD", ends, now + ttl, key)
  else
    redis.call("ZREM", ends, key)
  end
  tidy()
end

if where == "any" or not current then
  return answer("-")
end
return answer("+" .. current)
