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
    7  where   "any" | "absent" | "present" | "same" (what is there must be `old`)
    8  old     JSON

  Returns  "+" and what was there before | "-" (nothing was)
  Events   none
]]

local root, name = KEYS[1], ARGV[3]
local key, value, ttl, where, old = ARGV[4], ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[8]

--- @include lib/once
--- @include lib/map
--- @include lib/entry
--- @include lib/tidy

-- Check.
local before = answered()
if before then
  return before
end
local there = find(key)
local is_put = where == "any"
  or (where == "absent" and not there)
  or (where == "present" and there)
  or (where == "same" and there == old)

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

if where == "any" or not there then
  return answer("-")
end
return answer("+" .. there)
