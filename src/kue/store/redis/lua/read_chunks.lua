#!lua flags=no-writes
--[[
  read_chunks: read a page of a job's stream.  Touches one job; reads no more chunks than the
  limit, and stops once it has about 1 MiB.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id
    5  run    whose chunks were read before; if the stream is that of another, all are new
    6  start  how many of them
    7  limit

  Returns  how many chunks of the stream precede these, then the chunks
  Events   none
]]

--- @include lib/prelude

local key, run, start, limit = job .. ARGV[4] .. ":stream", ARGV[5], tonumber(ARGV[6]),
  tonumber(ARGV[7])
local MAX_BYTES, PART = 1048576, 50
if string.match(redis.call("LINDEX", key, 0) or "", "^(%d+):") ~= run then
  start = 0
end
local answer, bytes, left = { start }, 0, limit
while left > 0 and bytes < MAX_BYTES do
  local from = start + limit - left
  local part = redis.call("LRANGE", key, from, from + math.min(left, PART) - 1)
  for _, chunk in ipairs(part) do
    answer[#answer + 1] = chunk
    bytes = bytes + #chunk
  end
  left = #part < PART and 0 or left - #part
end
return answer
