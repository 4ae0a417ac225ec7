#!lua flags=allow-oom
--[[
  open: write down, the first time, how this shard is laid out; read it ever after.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  schema  version of the data model that the caller knows

  Returns  {schema, shards} as written
  Events   none
]]

--- @include lib/start

redis.call("HSETNX", root .. ":meta", "schema", ARGV[4])
redis.call("HSETNX", root .. ":meta", "shards", shards)
return redis.call("HMGET", root .. ":meta", "schema", "shards")
