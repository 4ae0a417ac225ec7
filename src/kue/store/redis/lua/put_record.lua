#!lua flags=allow-oom
--[[
  put_record: write a small record.  Touches one entry.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  field  room:name
    5  until  when it expires, Unix ms, or empty
    6  value
    7  how    "any" | "new" (there must be none) | "was" (it must be what follows)
    8  was    the value it must have

  Returns  "done" | "refused"
  Events   none
]]

--- @include lib/prelude
--- @include lib/small_record

local field, till, value, how, was = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

-- Check.
redis.call("ZCARD", root .. ":fading")
local found = kept(redis.call("HGET", root .. ":kept", field))
-- A call repeated after a lost reply finds its own value.
if found ~= value then
  if (how == "new" and found) or (how == "was" and found ~= was) then
    return "refused"
  end
end

-- Move.
redis.call("HSET", root .. ":kept", field, till .. "\t" .. value)
if till == "" then
  redis.call("ZREM", root .. ":fading", field)
else
  redis.call("ZADD", root .. ":fading", till, field)
end
return "done"
