-- The numbers of jobs, from which their ids are made: `:ids` has the last one.

-- Above what fits a score, adding 1 no longer changes a number: loops would not end.
local MAX_SEQ = 2199023255551 - 500

-- Return the last number of a job; nil if the key has anything else.
local function last_number()
  local last = tonumber(redis.call("GET", root .. ":ids") or 0)
  return last and last >= 0 and last <= MAX_SEQ and last % 1 == 0 and last or nil
end

local function damaged_number()
  return redis.error_reply("DAMAGED key " .. root .. ":ids is not the number of a job")
end

-- Write the new last number, and forget lost jobs that are too old for it.
local function take_numbers(old, new)
  redis.call("SET", root .. ":ids", new)
  local chunk = math.floor(new / LIVE_CHUNK)
  if chunk > math.floor(old / LIVE_CHUNK) then
    redis.call("DEL", root .. ":lost:" .. chunk - removed.CHUNKS)
  end
end
