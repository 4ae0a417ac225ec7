#!lua flags=no-writes
--[[
  work_time: return how long all successful runs took.

  Their sum as of the last full minute that was added to its hour, and of the minutes since.
  Atomic, so that no minute is counted twice.  Stops after the minute with which it has read
  MAX_FIELDS counters: the others count once maintenance has added them.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now      Unix ms, or empty for the server's clock
    2  shards   how many there are
    3  shard    which one this is
    4  minutes  how many minutes are kept

  Returns  the sum in ms, as text
  Events   none
]]

--- @include lib/prelude

local MAX_FIELDS = 20000
local minute = math.floor(now / 60000)
local meta = redis.call("HMGET", root .. ":meta", "work_ms", "rolled", "rolling")
local sum, rolled, fields = tonumber(meta[1]) or 0, tonumber(meta[2]) or 0, 0
-- A minute that is partly added counts when it is whole.
local first = math.max(rolled + (meta[3] and 2 or 1), minute - tonumber(ARGV[4]))
for one = first, minute do
  local values = redis.call("HGETALL", root .. ":stats:" .. one)
  for i = 1, #values, 2 do
    if string.find(values[i], ":work_ms$") then
      sum = sum + (tonumber(values[i + 1]) or 0)
    end
  end
  fields = fields + #values / 2
  if fields >= MAX_FIELDS then
    break
  end
end
return string.format("%.0f", sum)
