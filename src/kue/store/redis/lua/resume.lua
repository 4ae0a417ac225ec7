#!lua flags=allow-oom
--[[
  resume: hand out jobs of a type again.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  type   whose; empty for all

  Returns  1 if there was a pause in force, else 0
  Events   none
]]

--- @include lib/start
--- @include lib/sound
--- @include lib/limits

local job_type = ARGV[4]

-- Check.
check_shard()
local pause = redis.call("HGET", root .. ":paused", job_type)

-- Move.
redis.call("HDEL", root .. ":paused", job_type)
local types = job_type ~= "" and { job_type } or redis.call("SMEMBERS", root .. ":types")
for _, name in ipairs(types) do
  if redis.call("ZCARD", queue(name) .. "waiting") > 0 then
    wake(queue(name))
  end
end
return is_paused(pause) and 1 or 0
