#!lua flags=allow-oom
--[[
  delete_record: delete a small record.  Touches one entry.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  field  room:name

  Returns  1 if there was one that had not expired, else 0
  Events   none
]]

--- @include lib/prelude
--- @include lib/small_record

local field = ARGV[4]

-- Check.
redis.call("ZCARD", root .. ":fading")
local found = kept(redis.call("HGET", root .. ":kept", field))

-- Move.
redis.call("HDEL", root .. ":kept", field)
redis.call("ZREM", root .. ":fading", field)
return found and 1 or 0
