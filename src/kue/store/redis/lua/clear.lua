#!lua flags=allow-oom
--[[
  clear: delete the oldest jobs of a type in one state.

  Touches at most `limit` jobs, which the caller bounds, about 1,000 jobs that those wait
  for and 200 that wait for them (lib/dependants).

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  type   of the jobs
    5  state  of the jobs
    6  limit  how many at most

  Returns  how many were deleted
  Events   remove
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/given_jobs
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
--- @include lib/failures
--- @include lib/enter_state
--- @include lib/dependants
--- @include lib/erase

local job_type, state, limit = ARGV[4], ARGV[5], tonumber(ARGV[6])
local q = queue(job_type)

-- Check.
check_shard()
check_type(job_type)
local found = {}
-- Held jobs are waiting, too.
for _, place in ipairs(state == "waiting" and { "waiting", "held" } or { state }) do
  local left = limit - #found
  local ids = left > 0 and redis.call("ZRANGE", q .. place, 0, left - 1) or {}
  for _, id in ipairs(ids) do
    if checked_parents < MAX_PARENTS then
      local head = header(id) or { type = job_type }
      check_ties(id, head)
      found[#found + 1] = { id = id, place = place, head = head }
    end
  end
end

-- Move.
for _, one in ipairs(found) do
  -- Erasing one may have released a held one.
  erase(one.id, q, place_of(one.id, q) or one.place, one.head, true)
end

-- Publish.
publish()
return #found
