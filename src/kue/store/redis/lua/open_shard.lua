#!lua flags=allow-oom
--[[
  open_shard: write the layout and an id of this shard the first time; return them.  Touches three
  fields.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  schema  version of the data model that the caller supports
    5  id      for a new store

  Returns  {schema, shards, id} as written
  Events   none
]]

--- @include lib/prelude

local meta = root .. ":meta"
redis.call("HSETNX", meta, "schema", ARGV[4])
redis.call("HSETNX", meta, "shards", shards)
redis.call("HSETNX", meta, "id", ARGV[5])
return redis.call("HMGET", meta, "schema", "shards", "id")
