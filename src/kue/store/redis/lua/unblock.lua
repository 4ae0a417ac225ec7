#!lua flags=allow-oom
--[[
  unblock: release or cancel a job, now that its parent on another shard has ended, or that
  all parents were added that it waits for (it then waits for itself, see add).

  Idempotent: the job then no longer waits for that parent.  Touches the job, and at most
  200 that wait for it (lib/dependants).

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id       the job here
    5  parent   the job elsewhere
    6  outcome  complete | failed | cancelled | removed

  Returns  how many jobs were released
  Events   promotion, cancelled
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/flow
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
--- @include lib/failures
--- @include lib/enter_state
--- @include lib/dependants

local id, parent, outcome = ARGV[4], ARGV[5], ARGV[6]

check_shard()
local own = header(id)
if own then
  check_job(id, own)
end
if redis.call("SISMEMBER", job .. id .. ":after", parent) == 0 then
  return 0
end
dependants.notify_one(id, parent, outcome)
publish()
return released
