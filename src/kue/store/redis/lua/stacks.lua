#!lua flags=allow-oom
--[[
  stacks: keep what a worker was doing when someone asked.

  Touches that worker's entry; the caller bounds the text.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  who
    5  text    its stacks

  Returns  "OK", or "GONE" if the worker is not known
  Events   none
]]

--- @include lib/start

local worker, text = ARGV[4], ARGV[5]

if not redis.call("ZSCORE", root .. ":workers", worker) then
  return "GONE"
end
-- The time has a field of its own, so that upkeep need not read the text.
redis.call("HSET", root .. ":stacks", worker, text, worker .. ":at", now)
return "OK"
