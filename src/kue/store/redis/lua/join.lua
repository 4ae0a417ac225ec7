#!lua flags=allow-oom
--[[
  join: have a blocked job wait for a new one of another shard as well, which was added
  with it in `before`.

  Idempotent: it is entered among the parents, and in the outbox, from where it is linked
  like one that the job was added with; if the other has ended by then, that is found out.
  Touches the job.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id      the job here
    5  parent  the new job elsewhere

  Returns  {"joined", value of its entry in the outbox}, {"gone"}, or {state of the job}, if
           it is not blocked
  Events   none
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/job_place

local id, parent = ARGV[4], ARGV[5]

-- Check.
check_shard()
redis.call("SCARD", job .. id .. ":after")
local head = header(id)
local place = head and place_of(id, queue(head.type))
if place ~= "blocked" then
  return { place == "held" and "waiting" or place or "gone" }
end

-- Move.
local any = head.failure and "1" or "0"
redis.call("SADD", job .. id .. ":after", parent)
redis.call("HSET", root .. ":outbox", "link:" .. id .. ":" .. parent, any)
request_maintenance(SHARD)
return { "joined", any }
