#!lua flags=allow-oom
--[[
  register_listener: subscribe to events: scripts publish them until this expires.

  Touches the subscriber and the given jobs, which the caller bounds.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now       Unix ms, or empty for the server's clock
    2  shards    how many there are
    3  shard     which one this is
    4  duration  ms until this expires, unless it is repeated
    5  listener  name of a subscriber to all jobs, or empty
    then ids of jobs to watch

  Returns  the number of the last message that was published
  Events   none
]]

--- @include lib/prelude

local until_when, listener = now + tonumber(ARGV[4]), ARGV[5]

-- Check.
local published = redis.call("HGET", root .. ":meta", "told") or "0"

-- Move.
if listener ~= "" then
  redis.call("ZADD", root .. ":listeners", until_when, listener)
end
for at = 6, #ARGV do
  redis.call("ZADD", root .. ":watched", "GT", until_when, ARGV[at])
end
return published
