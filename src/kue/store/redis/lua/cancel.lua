#!lua flags=allow-oom
--[[
  cancel: cancel jobs that have not ended; ask running ones to stop.

  Touches at most 500 jobs, about 1,000 jobs that those wait for (lib/given_jobs: the caller
  names the rest again) and 200 that wait for them (lib/dependants).

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  tail    end of the history line, closing brace included
    5  asked   the same for a run that is asked to stop, unless it succeeds first
    6  reason  for its worker, JSON
    then for each: id, created, ending as in lib/expected_state

  Returns  for each job it came to: word, "" or the state it is in;
           words: done | asked | already | refused | gone
  Events   cancelled
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/given_jobs
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/flow
--- @include lib/expected_state
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
--- @include lib/failures
--- @include lib/enter_state
--- @include lib/dependants

local tail, request = ARGV[4], ARGV[5] .. "\t" .. ARGV[6]
local answers = {}

local function check(id, created)
  local head = header(id)
  local place = head and place_of(id, queue(head.type))
  if not place or is_other(head, created) then
    return "gone", ""
  elseif place == "cancelled" then
    return "already", place
  elseif place == "active" then
    local asked = redis.call("HEXISTS", root .. ":cancelling", id) == 1
    return asked and "already" or "asked", place, head, place
  elseif FINAL[place] or place == "parked" then
    return "refused", place
  end
  return "done", "", head, place
end

check_shard()
local last = check_jobs(7)
for i = 7, last, 3 do
  local id = ARGV[i]
  -- Check.
  local word, detail, head, place = check(id, ARGV[i + 1])
  answers[#answers + 1] = word
  answers[#answers + 1] = detail
  -- Move.
  if word == "asked" then
    redis.call("HSET", root .. ":cancelling", id, head.type .. "\t" .. request)
  elseif word == "done" then
    local q = queue(head.type)
    depart(id, q, place, head)
    arrive_final(id, q, head, "cancelled", tail)
    emit("cancelled", id, head.type, 0, "{" .. tail)
    dependants.notify(id, "cancelled")
  end
end

-- Publish.
publish()
return answers
