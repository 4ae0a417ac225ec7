#!lua flags=no-writes
--[[
  count: count the jobs of some types by state.

  One call counts about 500 types; the caller continues from the cursor.  A type may come
  twice; each is counted atomically.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  cursor  "0" to begin

  Returns  {cursor, counts}; the cursor is "0" at the end
           counts: type, waiting, active, delayed, complete, failed, cancelled,
           blocked; eight values per type
  Events   none
]]

--- @include lib/prelude

local page = redis.call("SSCAN", root .. ":types", ARGV[4], "COUNT", 500)
local answer = {}
for _, job_type in ipairs(page[2]) do
  local q = queue(job_type)
  answer[#answer + 1] = job_type
  answer[#answer + 1] = redis.call("ZCARD", q .. "waiting") + redis.call("ZCARD", q .. "held")
  answer[#answer + 1] = redis.call("HLEN", q .. "active")
  for _, state in ipairs({ "delayed", "complete", "failed", "cancelled", "blocked" }) do
    answer[#answer + 1] = redis.call("ZCARD", q .. state)
  end
end
return { page[1], answer }
