#!lua flags=allow-oom
--[[
  signal: send a signal to a job, and wake the job if it waits for it.  Touches one job.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id
    5  created  when the job was created; empty for any job with the id
    6  name     of the signal, quoted
    7  call     id of the signal: the same one again is not kept twice
    8  most     signals that a job may have
    9  data     JSON

  Returns  {"done" | "already" | "gone", ""} or {"refused", the state of an ended job or ""}
  Events   promotion, update
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
--- @include lib/enter_state
--- @include lib/steps

local id, created, name, call = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local key = steps.key(id)

-- Check.
check_shard()
local head = header(id)
local q = head and queue(head.type)
if head then
  check_type(head.type)
end
local place = head and place_of(id, q)
if not place or (created ~= "" and head.created ~= tonumber(created)) then
  return { "gone", "" }
elseif FINAL[place] or place == "parked" then
  return { "refused", place }
elseif redis.call("HEXISTS", key, "id:" .. call) == 1 then
  return { "already", "" }
elseif (tonumber(redis.call("HGET", key, "sent")) or 0) >= tonumber(ARGV[8]) then
  return { "refused", "" }
end
local sent, received, wait = steps.signal_counts(key, name)
local is_awaited = wait > 0 and sent == received and place == "delayed"

-- Move.
sent = sent + 1
redis.call("HSET", key, "signal:" .. sent .. ":" .. name,
  add_up(key, "sent", 1) .. "\t" .. now .. "\t" .. ARGV[9], "id:" .. call, sent)
steps.write_counts(key, name, sent, received, wait)
if is_awaited then
  depart(id, q, place, head)
  arrive_waiting(id, q, head)
end

-- Publish.
emit(is_awaited and "promotion" or "update", id, head.type, 0)
publish()
return { "done", "" }
