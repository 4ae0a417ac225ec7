#!lua flags=allow-oom
--[[
  move: make jobs waiting or delayed by hand: retry, promote, delay.

  Touches at most 500 jobs, and about 1,000 jobs that those wait for (lib/given_jobs: the caller
  names the rest again).

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  to      waiting | delayed
    5  at      when a delayed job is due, Unix ms
    6  states  ",delayed,blocked," to move only those; empty for any
    then for each: id, created, ending as in lib/expected_state

  Returns  for each job it came to: word, "" or the state it is in or the holder of its
           unique key; words: done | already | refused | held | gone
  Events   enqueue, promotion, update
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/given_jobs
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/flow
--- @include lib/unique_key
--- @include lib/expected_state
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
--- @include lib/failures
--- @include lib/enter_state
--- @include lib/dependants
--- @include lib/steps
--- @include lib/restart

local to, due, states = ARGV[4], tonumber(ARGV[5]), ARGV[6]
local answers = {}

local function is_allowed(state)
  return states == "" or string.find(states, "," .. state .. ",", 1, true)
end

local function check(id, created, ending)
  local head = header(id)
  local place = head and place_of(id, queue(head.type))
  if not place or is_other(head, created) then
    return "gone", ""
  end
  local state = place == "held" and "waiting" or place
  if is_past(id, place, ending) then
    return ending == "-" and "refused" or "already", state
  elseif to == "waiting" and state == "waiting" then
    return "already", state
  elseif state == "active" or state == "parked" or not is_allowed(state) then
    return "refused", state
  end
  local by = FINAL[place] and other_holder(id, queue(head.type), head)
  if by then
    return "held", by
  end
  return "done", "", head, place
end

local function event_of(place)
  if FINAL[place] then
    return "enqueue", '{"state":"' .. to .. '"}'
  end
  return to == "waiting" and "promotion" or "update"
end

check_shard()
local last = check_jobs(7)
for i = 7, last, 3 do
  redis.call("HLEN", steps.key(ARGV[i]))
end
for i = 7, last, 3 do
  local id = ARGV[i]
  -- Check.
  local word, detail, head, place = check(id, ARGV[i + 1], ARGV[i + 2])
  answers[#answers + 1] = word
  answers[#answers + 1] = detail
  -- Move.
  if word == "done" then
    local q = queue(head.type)
    depart(id, q, place, head)
    if FINAL[place] then
      restart(id, q, head, place)
    end
    if to == "waiting" then
      arrive_waiting(id, q, head)
    else
      arrive_delayed(id, q, head, due)
    end
    local kind, event_detail = event_of(place)
    emit(kind, id, head.type, 0, event_detail)
  end
end

-- Publish.
publish()
return answers
