#!lua flags=allow-oom
--[[
  begin_run: start a run that was delayed since it was claimed.  Touches one job.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id      of the job
    5  fence   of its run
    6  rest    of the new token of the run: attempt:worker:claim

  Returns  the token | "lost": the run is over | "refused": its type is paused
  Events   none
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/limits

-- Check.
local id, fence = ARGV[4], ARGV[5]
local head = header(id)
if not head then
  return "lost"
end
check_type(head.type)
local q = queue(head.type)
local token = redis.call("HGET", q .. "active", id)
if not token or string.match(token, "^%d+") ~= fence then
  return "lost"
end
-- If it has begun, this is a repeated call: it goes on.
if string.match(token, "^%d+:%d+:(.*)$") ~= ARGV[6] then
  local pauses = redis.call("HMGET", root .. ":paused", "", head.type)
  if is_paused(pauses[1]) or is_paused(pauses[2]) then
    return "refused"
  end
end

-- Move.
local new = fence .. ":" .. string.format("%.0f", now) .. ":" .. ARGV[6]
redis.call("HSET", q .. "active", id, new)
if head.ttl then
  redis.call("ZADD", q .. "ttl", now + head.ttl, id)
end
return new
