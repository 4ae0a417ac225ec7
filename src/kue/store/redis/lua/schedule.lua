#!lua flags=allow-oom
--[[
  schedule: write or delete a schedule.  Touches one entry.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  name     of the schedule
    5  next_at  when it fires next, Unix ms; empty to delete it
    6  text     the schedule as JSON

  Returns  1 if there was one of that name, else 0
  Events   none
]]

--- @include lib/prelude
--- @include lib/integrity

local name, next_at, text = ARGV[4], ARGV[5], ARGV[6]

-- Check.
check_shard()
local before = redis.call("HEXISTS", root .. ":schedules", name)

-- Move.
request_maintenance(SHARD)
if next_at == "" then
  redis.call("HDEL", root .. ":schedules", name)
  redis.call("ZREM", root .. ":due", name)
else
  redis.call("HSET", root .. ":schedules", name, text)
  redis.call("ZADD", root .. ":due", next_at, name)
end
return before
