#!lua flags=no-writes
--[[
  count: count the jobs of every type by state.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is

  Returns  type, waiting, active, delayed, complete, failed, cancelled, blocked; eight a type
  Events   none
]]

--- @include lib/start

local answer = {}
for _, job_type in ipairs(redis.call("SMEMBERS", root .. ":types")) do
  local q = queue(job_type)
  answer[#answer + 1] = job_type
  answer[#answer + 1] = redis.call("ZCARD", q .. "waiting") + redis.call("ZCARD", q .. "held")
  answer[#answer + 1] = redis.call("HLEN", q .. "active")
  for _, state in ipairs({ "delayed", "complete", "failed", "cancelled", "blocked" }) do
    answer[#answer + 1] = redis.call("ZCARD", q .. state)
  end
end
return answer
