#!lua flags=allow-oom
--[[
  block: restart finished jobs by hand, but have each wait first for those of its parents
  that it would wait for if it were added now.

  Touches at most 500 jobs, and about 1,000 of their parents: the caller names the rest
  again.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  states  ",failed,cancelled," to restart only those; empty for any
    then for each: id, created, ending as in lib/expected_state, parents as "id,id,…";
       one of another shard as "id:outcome"

  Returns  for each job it came to: word, "" or the state it is in or the holder of its
           unique key; words: done | already | refused | held | gone
  Events   enqueue
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
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
--- @include lib/parents
--- @include lib/steps
--- @include lib/restart

local MAX_PARENTS = 1000
local states, answers = ARGV[4], {}

local function ids_in(list)
  local ids = {}
  for id, outcome in string.gmatch(list, "(%d+):?(%a*)") do
    ids[#ids + 1] = id
    if outcome ~= "" then
      parents.how[id] = outcome
    end
  end
  return ids
end

-- Check the structures of the jobs and of their parents; return the last position that
-- this call goes to.
local function check_structures()
  local looked_at = 0
  for i = 5, #ARGV, 4 do
    if looked_at >= MAX_PARENTS then
      return i - 1
    end
    local head = header(ARGV[i])
    if head then
      check_job(ARGV[i], head)
    end
    redis.call("HLEN", steps.key(ARGV[i]))
    for _, parent in ipairs(ids_in(ARGV[i + 3])) do
      redis.call("ZCARD", job .. parent .. ":then")
      redis.call("ZCARD", job .. parent .. ":finally")
      looked_at = looked_at + 1
    end
  end
  return #ARGV
end

local function is_allowed(place)
  return states == "" or string.find(states, "," .. place .. ",", 1, true)
end

-- Return a word and its detail; for a job to restart also its header, where it is, and
-- the parents that it waits for.
local function check(id, created, ending, list)
  local head = header(id)
  local place = head and place_of(id, queue(head.type))
  if not place or is_other(head, created) then
    return "gone", ""
  end
  local state = place == "held" and "waiting" or place
  if is_past(id, place, ending) then
    return ending == "-" and "refused" or "already", state
  elseif place == "blocked" then
    return "already", state
  elseif not FINAL[place] or not is_allowed(place) then
    return "refused", state
  end
  local open, reason = parents.sort(ids_in(list), head.failure or "block", parents.ended)
  if reason then
    return "refused", state
  end
  local by = other_holder(id, queue(head.type), head)
  if by then
    return "held", by
  end
  return "done", "", head, place, open
end

-- Make a job blocked, or waiting or delayed if it waits for nothing; return which.
local function arrive(id, q, head, open)
  local due = head.at or (now + (head.delay or 0))
  if #open == 0 and due > now then
    arrive_delayed(id, q, head, due)
    return "delayed"
  elseif #open == 0 then
    arrive_waiting(id, q, head)
    return "waiting"
  end
  redis.call("ZADD", q .. "blocked", id, id)
  request_maintenance(head.type)
  if head.expires then
    redis.call("ZADD", q .. "expires", head.created + head.expires, id)
  end
  for _, parent in ipairs(open) do
    parents.link(id, parent, head.failure or "block")
  end
  return "blocked"
end

check_shard()
for i = 5, check_structures(), 4 do
  local id = ARGV[i]
  -- Check.
  local word, detail, head, place, open = check(id, ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
  answers[#answers + 1] = word
  answers[#answers + 1] = detail
  -- Move.
  if word == "done" then
    local q = queue(head.type)
    depart(id, q, place, head)
    restart(id, q, head, place)
    local state = arrive(id, q, head, open)
    -- Those that follow in this call may wait for it.
    parents.how[id] = "open"
    emit("enqueue", id, head.type, 0, '{"state":"' .. state .. '"}')
  end
end

-- Publish.
publish()
return answers
