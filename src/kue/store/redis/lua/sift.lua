#!lua flags=no-writes
--[[
  sift: leave out jobs that cannot match a search, without decoding them.

  Touches at most 500 jobs and the newest lines of their logs, and stops once it has read
  256 KiB: the caller then asks for the rest.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  lines   of each log, that are searched
    5  needles  how many follow: texts that a match must have, in lower case
    6  doubts   how many follow: with one of these, a text may match without needles
    then needles, doubts and ids

  Returns  how many jobs it came to, bytes of their records, then the ids of jobs that may
           match
  Events   none
]]

--- @include lib/prelude

local lines, ids_at = tonumber(ARGV[4]), 7 + ARGV[5] + ARGV[6]
local MAX_BYTES = 262144
-- Longer texts are not searched for doubts that are not ASCII: some may be everywhere.
local LONG = 4096
-- Doubts by their first byte: most texts have none of these.
local doubts = {}
for at = 7 + ARGV[5], ids_at - 1 do
  local lead = string.sub(ARGV[at], 1, 1)
  doubts[lead] = doubts[lead] or {}
  table.insert(doubts[lead], ARGV[at])
end

local function is_uncertain(text)
  for lead, sequences in pairs(doubts) do
    if string.find(text, lead, 1, true) then
      if #text > LONG and lead > "\127" then
        return true
      end
      for _, sequence in ipairs(sequences) do
        if string.find(text, sequence, 1, true) then
          return true
        end
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
for at = 7, 6 + ARGV[5] do
  needles[#needles + 1] = ARGV[at]
end
for at = ids_at, #ARGV do
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
