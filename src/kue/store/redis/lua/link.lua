#!lua flags=allow-oom
--[[
  link: register that a job of another shard waits for one of this shard.  Touches that
  job.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  parent  the job here
    5  id      the job elsewhere
    6  any     "1" if the job is to be notified when the parent fails, too

  Returns  "linked", or how the parent ended: complete | failed | cancelled | removed
  Events   none
]]

--- @include lib/prelude
--- @include lib/record_header
--- @include lib/job_bitmap
--- @include lib/job_place

local parent, id, any = ARGV[4], ARGV[5], ARGV[6] == "1"

-- Check.
local head = header(parent)
local place = head and place_of(parent, queue(head.type))
if not head then
  return removed.outcome(parent) or "removed"
elseif not place or place == "parked" then
  return "removed"
elseif FINAL[place] and (any or place ~= "failed") then
  return place
end

-- Move.
redis.call("ZADD", job .. parent .. (any and ":finally" or ":then"), id, id)
redis.call("SADD", root .. ":parents", parent)
return "linked"
