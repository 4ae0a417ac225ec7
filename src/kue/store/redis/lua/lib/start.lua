-- What every script begins with: where it works, and what time it is there.
-- The clock is the caller's when a test owns it, else the server's, read once.
local root, shards, shard = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now, micros
if ARGV[1] ~= "" then
  now, micros = tonumber(ARGV[1]), tonumber(ARGV[1]) * 1000
else
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  micros = time[1] * 1000000 + time[2]
end
local job = root .. ":job:"

-- Whole numbers print several times faster as such, where they have room for a fence.
local WHOLE = string.format("%d", 4503599627370496) == "4503599627370496" and "%d" or "%.0f"

-- Keys of one type begin with this.
local function queue(job_type)
  return root .. ":" .. job_type .. ":"
end

-- One number that orders by priority, then first in, first out: 11 bits and 41 bits of
-- sequence are exact in the double that a score is.
local function score(priority, id)
  return priority * 2199023255552 + math.floor(id / shards)
end

-- Upkeep rests while nothing goes on (see tend); whoever changes something ends that.
local function stir()
  redis.call("DEL", root .. ":quiet")
end

-- Let one sleeping worker look.  The marker carries no job: losing it costs time only.
local function wake(q)
  redis.call("ZADD", q .. "wake", 0, "0")
end
