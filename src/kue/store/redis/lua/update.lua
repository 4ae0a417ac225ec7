#!lua flags=allow-oom
--[[
  update: replace header and body of a job, if they are still what the caller read.

  Touches one job; its history stays.  The caller decodes and encodes, and tries again when
  another caller was faster.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id       of the job
    5  old      the first two lines of the record as the caller read them
    6  new      what replaces them
    7  priority as in the new header
    8  ending   as in lib/expected_state; the creation time is in the header

  Returns  "done" | "changed" | "refused" | "gone"
  Events   update
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/named_limits
--- @include lib/publish
--- @include lib/job_place
--- @include lib/expected_state
--- @include lib/rank
--- @include lib/rescore

local id, old, new, priority = ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])

-- Check.
check_shard()
local record = redis.pcall("GET", job .. id)
if type(record) ~= "string" then
  return "gone"
elseif string.sub(record, 1, #old) ~= old then
  return "changed"
end
local head = read_header(record)
local q = queue(head.type)
check_job(id, head)
local place = place_of(id, q)
if is_past(id, place, ARGV[8]) then
  return "refused"
end

-- Move.
redis.call("SET", job .. id, new .. string.sub(record, #old + 1))
if (place == "waiting" or place == "held") and priority ~= head.priority then
  local rule, to, batch = ranks.rule_of(head.type), nil, {}
  if rule and rule.ageing then
    to = redis.call("ZSCORE", q .. place, id) + (priority - head.priority) * rule.ageing * 1000
  else
    head.priority = priority
    to = ranks.enter(id, q, head, batch)
  end
  rescore(id, q, place, head, to)
  ranks.write(batch)
end

-- Publish.
emit("update", id, head.type, 0)
publish()
return "done"
