#!lua flags=no-writes
--[[
  error_groups: return the errors of failed jobs, the most frequent first.

  One call reads about 100 types and `limit` errors of each, and returns the `limit` most
  frequent of them; the caller continues from the cursor.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  limit   errors to return at most
    5  type    of the jobs, or empty for all types
    6  cursor  "0" to begin

  Returns  {cursor, total, type, fingerprint, count, first, last, …}
           cursor "0" at the end
           total  errors of the types that were read
           first  when the first of its jobs failed, Unix ms
           last   when the last one failed, its id, its error as JSON; tab-separated
  Events   none
]]

--- @include lib/prelude

local limit, only, cursor = tonumber(ARGV[4]), ARGV[5], ARGV[6]
local page = only ~= "" and { "0", { only } }
  or redis.call("SSCAN", root .. ":types", cursor, "COUNT", 100)
local total, found = 0, {}
for _, job_type in ipairs(page[2]) do
  local q = queue(job_type)
  total = total + redis.call("ZCARD", q .. "errors")
  local counts = redis.call("ZRANGE", q .. "errors", 0, limit - 1, "REV", "WITHSCORES")
  for i = 1, #counts, 2 do
    found[#found + 1] = { type = job_type, fingerprint = counts[i], count = counts[i + 1] }
  end
end
table.sort(found, function(a, b) return tonumber(a.count) > tonumber(b.count) end)
local answer = { page[1], total }
for i = 1, math.min(limit, #found) do
  local one = found[i]
  local cause = redis.call("HMGET", queue(one.type) .. "causes", one.fingerprint,
    one.fingerprint .. ":last")
  for _, value in ipairs({ one.type, one.fingerprint, one.count, cause[1] or "",
    cause[2] or "" }) do
    answer[#answer + 1] = value
  end
end
return answer
