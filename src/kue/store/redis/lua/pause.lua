#!lua flags=allow-oom
--[[
  pause: start no more jobs of a type, or on a worker.  Touches one entry.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  target  a type; empty for all; a worker after a colon, which no type begins with
    5  until   when it ends automatically, Unix ms, or empty
    6  pause   JSON without its opening brace

  Returns  "OK"
  Events   none
]]

--- @include lib/prelude

local target, till, pause = ARGV[4], ARGV[5], ARGV[6]

redis.call("HSET", root .. ":paused", target, till .. "\t" .. '{"at":' .. now .. "," .. pause)
return "OK"
