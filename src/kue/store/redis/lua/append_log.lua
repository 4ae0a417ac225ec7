#!lua flags=allow-oom
--[[
  append_log: append lines to a job's log.  Touches one job; the caller bounds the lines.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id    of the job
    5  keep  lines to keep at most
    6  call  a random name of this call, so that repeating it adds nothing
    7  created  when the job was created; empty for any job with the id
    then lines: JSON without its opening brace

  Returns  "done" | "gone"
  Events   none
]]

--- @include lib/prelude
--- @include lib/record_header

local id, keep, name, created = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]

-- How many lines may come between a call and its repetition.
local MAX_BETWEEN = 50

-- Check.
local function is_there()
  if created == "" then
    return redis.call("EXISTS", job .. id) == 1
  end
  local head = header(id)
  return head and head.created == tonumber(created)
end
if not is_there() then
  return "gone"
end
for _, line in ipairs(redis.call("LRANGE", job .. id .. ":log", -MAX_BETWEEN, -1)) do
  if string.find(line, '"call":"' .. name .. '",', 1, true) then
    return "done"
  end
end

-- Move.
local lines = {}
for at = 8, #ARGV do
  local call = at == #ARGV and '"call":"' .. name .. '",' or ""
  lines[#lines + 1] = '{"at":' .. now .. "," .. call .. ARGV[at]
end
if #lines > 0 then
  redis.call("RPUSH", job .. id .. ":log", unpack(lines))
  redis.call("LTRIM", job .. id .. ":log", -keep, -1)
end
return "done"
