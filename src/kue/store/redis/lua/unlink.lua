#!lua flags=allow-oom
--[[
  unlink: a job of another shard no longer waits for one of this shard.  Touches the latter.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  parent  the job here
    5  id      the job elsewhere

  Returns  "OK"
  Events   none
]]

--- @include lib/prelude
--- @include lib/unlink

-- Check.
redis.call("HLEN", root .. ":outbox")

-- Move.
links.remove(ARGV[4], ARGV[5])
return "OK"
