#!lua flags=allow-oom
--[[
  pause: hand out no more jobs of a type, or have a worker take none.  Touches one entry.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  whose  a type; empty for all; a worker after a colon, which no type begins with
    5  until  when it ends by itself, Unix ms, or empty
    6  pause  JSON without its opening brace

  Returns  "OK"
  Events   none
]]

--- @include lib/start

local whose, till, pause = ARGV[4], ARGV[5], ARGV[6]

redis.call("HSET", root .. ":paused", whose, till .. "\t" .. '{"at":' .. now .. "," .. pause)
return "OK"
