#!lua flags=allow-oom
--[[
  deregister_worker: deregister a worker; jobs that it still runs may be requeued at once.  Touches one
  entry.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  its name

  Returns  "OK"
  Events   none
]]

--- @include lib/prelude

local worker = ARGV[4]

-- Only a known worker: maintenance forgets it once it has no more runs.  A deadline below
-- 0 means that its lease is over, whatever happens to the clock.
redis.call("ZADD", root .. ":workers", "XX", -now, worker)
return "OK"
