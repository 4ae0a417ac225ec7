#!lua flags=allow-oom
--[[
  drop_flow: delete the index of a flow on this shard: its job, elsewhere, was removed.

  The keys are deleted in the background, however many members there are; the members stay.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  flow    the job elsewhere

  Returns  "OK"
  Events   none
]]

--- @include lib/prelude

redis.call("UNLINK", root .. ":flow:" .. ARGV[4], root .. ":members:" .. ARGV[4])
return "OK"
