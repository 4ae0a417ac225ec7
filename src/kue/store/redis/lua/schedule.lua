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
    5  old      its text as the caller read it; empty if there was none, "*" for any
    6  next_at  when it fires next, Unix ms; empty for never
    7  text     the schedule as JSON; empty to delete it
    8  limit    of schedules on the shard

  Returns  OK | NONE, if there was none to delete | CHANGED: it is not the old one | FULL
  Events   none
]]

--- @include lib/prelude
--- @include lib/integrity

local name, old, next_at, text, limit = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local schedules, due = root .. ":schedules", root .. ":due"

-- Check.
check_shard()
local stored = redis.call("HGET", schedules, name)
if old == "*" and not stored then
  return "NONE"
elseif old ~= "*" and (stored or "") ~= old then
  return "CHANGED"
elseif not stored and redis.call("HLEN", schedules) >= tonumber(limit) then
  return "FULL"
end

-- Move.
request_maintenance(SHARD)
if text == "" then
  redis.call("HDEL", schedules, name)
else
  redis.call("HSET", schedules, name, text)
end
if text == "" or next_at == "" then
  redis.call("ZREM", due, name)
else
  redis.call("ZADD", due, next_at, name)
end
return "OK"
