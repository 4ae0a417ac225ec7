#!lua flags=allow-oom
--[[
  leave: a worker goes; what it still runs may be taken back at once.  Touches one entry.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  who

  Returns  "OK"
  Events   none
]]

--- @include lib/start

local worker = ARGV[4]

-- Only a worker that is known: upkeep forgets it once nothing is left in its hands.  Below
-- 0, its lease is over whatever happens to the clock.
redis.call("ZADD", root .. ":workers", "XX", -now, worker)
return "OK"
