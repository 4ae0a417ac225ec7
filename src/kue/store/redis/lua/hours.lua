#!lua flags=no-writes
--[[
  hours: the counters of some hours, with minutes that are in no hour yet.

  A script, so that no minute is seen both alone and in its hour.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now      Unix ms, or empty for the server's clock
    2  shards   how many there are
    3  shard    which one this is
    4  since    the first hour, Unix time in hours
    5  until    the last
    6  minutes  how many are kept

  Returns  for each hour and minute with counters: its first minute, fields and values
  Events   none
]]

--- @include lib/start

local since, till, kept = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local found = {}

local function look(key, minute)
  local fields = redis.call("HGETALL", key)
  if #fields > 0 then
    found[#found + 1] = minute
    found[#found + 1] = fields
  end
end

for hour = since, till do
  look(root .. ":hours:" .. hour, hour * 60)
end
local minute = math.floor(now / 60000)
local rolled = tonumber(redis.call("HGET", root .. ":meta", "rolled")) or 0
local first = math.max(since * 60, rolled + 1, minute - kept)
for one = first, math.min(till * 60 + 59, minute) do
  look(root .. ":stats:" .. one, one)
end
return found
