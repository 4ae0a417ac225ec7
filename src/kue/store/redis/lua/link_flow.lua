#!lua flags=allow-oom
--[[
  link_flow: register that another shard has members of the flow of a job of this shard.
  Touches that job.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  flow    the job here
    5  at      the shard that has members

  Returns  "linked", or "gone" if there is no such job (any more)
  Events   none
]]

--- @include lib/prelude

local flow, at = ARGV[4], ARGV[5]

-- Check.
redis.call("HLEN", root .. ":flow:" .. flow)
redis.call("SCARD", root .. ":parents")
if redis.call("EXISTS", job .. flow) == 0 then
  return "gone"
end

-- Move.
redis.call("HSET", root .. ":flow:" .. flow, "at:" .. at, "")
redis.call("SADD", root .. ":parents", flow)
return "linked"
