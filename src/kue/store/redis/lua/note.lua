#!lua flags=allow-oom
--[[
  note: append an act to the audit log.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  keep  acts to keep at most
    5  call  a random name of this call, so that saying it again adds nothing
    6  act   JSON

  Returns  the number of the act
  Events   none
]]

--- @include lib/start

local keep, name, act = tonumber(ARGV[4]), ARGV[5], ARGV[6]

-- Calls of others that may come between a call and its repetition.
local MAX_BETWEEN = 50

-- Check.
local newest = redis.call("ZRANGE", root .. ":acts", 0, MAX_BETWEEN - 1, "REV", "WITHSCORES")
for i = 1, #newest, 2 do
  if string.find(newest[i], "\t" .. name .. "\t", 1, true) then
    return tonumber(newest[i + 1])
  end
end

-- Move.
local number = (tonumber(newest[2]) or 0) + 1
redis.call("ZADD", root .. ":acts", number, string.format(WHOLE, now) .. "\t" .. name .. "\t" .. act)
redis.call("ZREMRANGEBYRANK", root .. ":acts", 0, -keep - 1)
return number
