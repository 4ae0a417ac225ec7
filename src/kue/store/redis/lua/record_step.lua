#!lua flags=allow-oom
--[[
  record_step: keep the result of a step of a running job.  Touches one job, with up to 64 KiB.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id
    5  token     of the run
    6  field     of the step, as in store/step_record.py
    7  most      steps that a job may have
    8  duration  of the step, ms
    9  result    JSON

  Returns  "done" | "already" | "refused" | "lost" | "gone"
  Events   update
]]

--- @include lib/prelude
--- @include lib/record_header
--- @include lib/publish
--- @include lib/steps

local id, token, field = ARGV[4], ARGV[5], ARGV[6]

-- Check.
local head = header(id)
if not head then
  return "gone"
elseif redis.call("HGET", queue(head.type) .. "active", id) ~= token then
  return "lost"
elseif redis.call("HEXISTS", steps.key(id), field) == 1 then
  return "already"
elseif (tonumber(redis.call("HGET", steps.key(id), "steps")) or 0) >= tonumber(ARGV[7]) then
  return "refused"
end

-- Move.
steps.add(steps.key(id), field, ARGV[8] .. "\t" .. ARGV[9])

-- Publish.
emit("update", id, head.type, string.match(token, "^%d+:%d+:(%d+):"))
publish()
return "done"
