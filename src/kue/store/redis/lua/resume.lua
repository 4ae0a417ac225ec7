#!lua flags=allow-oom
--[[
  resume: start jobs of a type again, or on a worker.

  A paused worker learns of it with its next heartbeat; there is nobody to wake.  Wakes
  workers of MAX_WOKEN types at most, those due for maintenance first; maintenance
  continues with the others.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  target  a type; empty for all; a worker after a colon, which no type begins with

  Returns  1 if there was a pause in force, else 0
  Events   none
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/limits

local target = ARGV[4]
local MAX_WOKEN = 1000

-- Check.
check_shard()
local pause = redis.call("HGET", root .. ":paused", target)
local types = { target }
if target == "" then
  types = redis.call("ZRANGE", root .. ":agenda", 0, MAX_WOKEN - 1)
elseif string.sub(target, 1, 1) == ":" then
  types = {}
end

-- Move.
redis.call("HDEL", root .. ":paused", target)
for _, name in ipairs(types) do
  if redis.call("ZCARD", queue(name) .. "waiting") > 0 then
    wake(queue(name))
  end
end
return is_paused(pause) and 1 or 0
