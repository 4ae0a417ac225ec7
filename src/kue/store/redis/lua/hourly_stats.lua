#!lua flags=no-writes
--[[
  hourly_stats: return the statistics of some hours, with minutes not yet added to an hour.

  Atomic, so that no minute is counted both alone and in its hour.  Stops after the hour
  with which it has read MAX_FIELDS counters; the caller bounds the hours, and continues
  from where it stopped.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now      Unix ms, or empty for the server's clock
    2  shards   how many there are
    3  shard    which one this is
    4  since    the first hour, Unix time in hours
    5  until    the last
    6  minutes  how many minutes are kept

  Returns  {next, found}; next: the hour to continue with
           found: for each hour and minute with counters its first minute, fields and
           values
  Events   none
]]

--- @include lib/prelude

local since, till, kept = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local MAX_FIELDS = 20000
local found, fields = {}, 0

local function look(key, minute)
  local values = redis.call("HGETALL", key)
  if #values > 0 then
    found[#found + 1] = minute
    found[#found + 1] = values
    fields = fields + #values / 2
  end
end

local minute = math.floor(now / 60000)
local rolled = tonumber(redis.call("HGET", root .. ":meta", "rolled")) or 0
for hour = since, till do
  look(root .. ":hours:" .. hour, hour * 60)
  local first = math.max(hour * 60, rolled + 1, minute - kept)
  for one = first, math.min(hour * 60 + 59, minute) do
    look(root .. ":stats:" .. one, one)
  end
  if fields >= MAX_FIELDS then
    return { hour + 1, found }
  end
end
return { till + 1, found }
