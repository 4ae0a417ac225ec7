#!lua flags=allow-oom
--[[
  remove: delete jobs and all their data.

  Touches at most 500 jobs, about 1,000 jobs that those wait for (lib/given_jobs: the caller
  names the rest again) and 200 that wait for them (lib/dependants).

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  force   "1" to delete running ones too
    5  states  ",failed,complete," to delete only those; empty for any
    then for each: id, created, ending as in lib/expected_state

  Returns  for each job it came to: word, "" or the state it is in;
           words: done | refused | gone
  Events   remove
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/given_jobs
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/expected_state
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
--- @include lib/failures
--- @include lib/enter_state
--- @include lib/dependants
--- @include lib/erase

local force, states = ARGV[4] == "1", ARGV[5]
local answers = {}

local function is_wanted(state)
  return states == "" or string.find(states, "," .. state .. ",", 1, true)
end

check_shard()
local last = check_jobs(6)
for i = 6, last, 3 do
  local id, created, ending = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  -- Check.
  local head = header(id)
  local place = head and place_of(id, queue(head.type))
  local state = place == "held" and "waiting" or place
  local word, detail = "done", ""
  if not place or is_other(head, created) then
    word = "gone"
  elseif (state == "active" and not force) or not is_wanted(state)
    or is_past(id, place, ending) then
    word, detail = "refused", state
  end
  answers[#answers + 1] = word
  answers[#answers + 1] = detail
  -- Move.
  if word == "done" then
    erase(id, queue(head.type), place, head, true)
  end
end

-- Publish.
publish()
return answers
