#!lua flags=allow-oom
--[[
  append_audit: append an entry to the audit log: three rings with one numbering, for changes, for
  routine actions, and for refused ones.

  Reads the MAX_BETWEEN newest, and deletes what exceeds `keep`: usually one.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  ring  acts, routine or refusals
    5  keep  entries to keep at most in this ring
    6  call  a random name of this call, so that repeating it adds nothing
    7  act   the entry, JSON

  Returns  the number of the entry
  Events   none
]]

--- @include lib/prelude

local ring, keep, name, act = root .. ":" .. ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]

-- How many entries may come between a call and its repetition.
local MAX_BETWEEN = 50

local function last_of(key)
  return tonumber(redis.call("ZRANGE", key, 0, 0, "REV", "WITHSCORES")[2]) or 0
end

-- Check.
local newest = redis.call("ZRANGE", ring, 0, MAX_BETWEEN - 1, "REV", "WITHSCORES")
for i = 1, #newest, 2 do
  if string.find(newest[i], "\t" .. name .. "\t", 1, true) then
    return tonumber(newest[i + 1])
  end
end

-- Move.
local number = 1 + math.max(last_of(root .. ":acts"), last_of(root .. ":routine"),
  last_of(root .. ":refusals"))
redis.call("ZADD", ring, number, string.format(WHOLE, now) .. "\t" .. name .. "\t" .. act)
redis.call("ZREMRANGEBYRANK", ring, 0, -keep - 1)
return number
