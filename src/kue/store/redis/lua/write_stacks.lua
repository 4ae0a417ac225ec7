#!lua flags=allow-oom
--[[
  write_stacks: store the stack traces of a worker, which an order asked for.

  Touches that worker's entry; the caller bounds the text.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  its name
    5  text    its stack traces

  Returns  "OK", or "GONE" if the worker is not known
  Events   none
]]

--- @include lib/prelude

local worker, text = ARGV[4], ARGV[5]

if not redis.call("ZSCORE", root .. ":workers", worker) then
  return "GONE"
end
-- The time has a separate field, so that maintenance need not read the text.
redis.call("HSET", root .. ":stacks", worker, text, worker .. ":at", now)
return "OK"
