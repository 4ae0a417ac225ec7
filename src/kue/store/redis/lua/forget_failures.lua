#!lua flags=allow-oom
--[[
  forget_failures: delete failures that were reported.  Touches at most 500 entries.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    then entries of `:failures`

  Returns  how many there were
  Events   none
]]

--- @include lib/prelude

return redis.call("ZREM", root .. ":failures", unpack(ARGV, 4))
