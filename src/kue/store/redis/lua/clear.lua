#!lua flags=allow-oom
--[[
  clear: delete the oldest jobs of a type in one state.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  type   whose
    5  state  which
    6  limit  how many at most

  Returns  how many were deleted
  Events   remove
]]

--- @include lib/start
--- @include lib/sound
--- @include lib/header
--- @include lib/tell
--- @include lib/live
--- @include lib/state
--- @include lib/unlink
--- @include lib/depart
--- @include lib/arrive
--- @include lib/dependants
--- @include lib/erase

local job_type, state, limit = ARGV[4], ARGV[5], tonumber(ARGV[6])
local q, cleared = queue(job_type), 0

check_shard()
check_type(job_type)
-- Waiting jobs that a limit has set aside are waiting too.
local places = state == "waiting" and { "waiting", "held" } or { state }
for _, place in ipairs(places) do
  -- Check.
  local ids = limit > cleared
    and redis.call("ZRANGE", q .. place, 0, limit - cleared - 1) or {}
  -- Move.
  for _, id in ipairs(ids) do
    erase(id, q, place, header(id) or { type = job_type }, true)
  end
  cleared = cleared + #ids
end

-- Tell.
publish()
return cleared
