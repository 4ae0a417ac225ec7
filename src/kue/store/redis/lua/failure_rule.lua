#!lua flags=allow-oom
--[[
  failure_rule: set what is done about jobs that fail for good.  Touches one entry.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  type    that it is for; empty for all
    5  rule    JSON; empty to delete it

  Returns  "OK"
  Events   none
]]

--- @include lib/prelude

if ARGV[5] == "" then
  redis.call("HDEL", root .. ":failure_rules", ARGV[4])
else
  redis.call("HSET", root .. ":failure_rules", ARGV[4], ARGV[5])
end
return "OK"
