#!lua flags=no-writes
--[[
  sift: leave out jobs that cannot match a search, without decoding them.

  Touches at most 500 jobs and the newest lines of their logs, and stops once it has read
  1 MiB: the caller then asks for the rest.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  lines   of each log, that are searched
    5  count   how many needles follow: texts that a match must have, in lower case
    then needles, then ids

  Returns  how many jobs it came to, bytes of their records, then the ids of jobs that may
           match
  Events   none
]]

--- @include lib/prelude

local lines, count = tonumber(ARGV[4]), tonumber(ARGV[5])
local MAX_BYTES = 1048576
-- Characters that stand for ASCII once case is ignored: see kue.model.search_text.
local FOLDED = { "\195\159", "\196\176", "\197[\137\191]", "\205\190",
  "\225\186[\154\158]", "\225\191\175", "\226\132\170", "\239\172[\128-\134]" }

-- Return whether a text may mean something else than what its bytes say.
local function is_uncertain(text)
  if string.find(text, "\\[u/]") then
    return true
  end
  if string.find(text, "[\128-\255]") then
    for _, pattern in ipairs(FOLDED) do
      if string.find(text, pattern) then
        return true
      end
    end
  end
  return false
end

-- Return which needles a text lacks, of those that are missing so far.
local function still_missing(text, needles)
  local lower, left = string.lower(text), {}
  for _, needle in ipairs(needles) do
    if not string.find(lower, needle, 1, true) then
      left[#left + 1] = needle
    end
  end
  return left
end

local answer, came_to, size, bytes = { 0, 0 }, 0, 0, 0

-- Return whether a text has all needles, or may have them, and those it lacks.
local function search(text, needles)
  bytes = bytes + #text
  local left = still_missing(text, needles)
  return #left == 0 or is_uncertain(text), left
end

local function may_match(id, needles)
  local record = redis.pcall("GET", job .. id)
  if type(record) ~= "string" then
    return false
  end
  size = size + #record
  local is_found, left = search(record, needles)
  local log = is_found and {} or redis.pcall("LRANGE", job .. id .. ":log", -lines, -1)
  for at = #log, 1, -1 do
    is_found, left = search(log[at], left)
    if is_found then
      break
    end
  end
  return is_found
end

local needles = {}
for at = 6, 5 + count do
  needles[#needles + 1] = ARGV[at]
end
for at = 6 + count, #ARGV do
  if bytes >= MAX_BYTES then
    break
  end
  came_to = came_to + 1
  if may_match(ARGV[at], needles) then
    answer[#answer + 1] = ARGV[at]
  end
end
answer[1], answer[2] = came_to, size
return answer
