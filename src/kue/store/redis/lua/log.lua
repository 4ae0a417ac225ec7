#!lua flags=allow-oom
--[[
  log: append lines to a job's log.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id    of the job
    5  keep  lines to keep at most
    then lines: JSON without its opening brace

  Returns  "done" | "gone"
  Events   none
]]

--- @include lib/start

local id, keep = ARGV[4], tonumber(ARGV[5])

-- Check.
if redis.call("EXISTS", job .. id) == 0 then
  return "gone"
end

-- Move.
local lines = {}
for at = 6, #ARGV do
  lines[#lines + 1] = '{"at":' .. now .. "," .. ARGV[at]
end
if #lines > 0 then
  redis.call("RPUSH", job .. id .. ":log", unpack(lines))
  redis.call("LTRIM", job .. id .. ":log", -keep, -1)
end
return "done"
