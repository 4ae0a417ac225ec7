#!lua flags=no-writes
--[[
  errors: tell what failed jobs failed of, the most frequent first.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  limit   errors to tell of each type at most
    5  type    whose, or empty for all types

  Returns  {total, type, fingerprint, count, first, last, …}
           total  errors there are
           first  when the first of its jobs failed, Unix ms
           last   the same of the last, its id, its error as JSON; tab-separated
  Events   none
]]

--- @include lib/start

local limit, only = tonumber(ARGV[4]), ARGV[5]
local answer = { 0 }
for _, job_type in ipairs(only ~= "" and { only }
  or redis.call("SMEMBERS", root .. ":types")) do
  local q = queue(job_type)
  local found = redis.call("ZRANGE", q .. "errors", 0, limit - 1, "REV", "WITHSCORES")
  answer[1] = answer[1] + redis.call("ZCARD", q .. "errors")
  for i = 1, #found, 2 do
    local mark = found[i]
    local cause = redis.call("HMGET", q .. "causes", mark, mark .. ":last")
    for _, value in ipairs({ job_type, mark, found[i + 1], cause[1] or "",
      cause[2] or "" }) do
      answer[#answer + 1] = value
    end
  end
end
return answer
