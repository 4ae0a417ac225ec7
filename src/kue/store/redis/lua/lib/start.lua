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

-- What belongs to no type, among the types of `:agenda`: no type begins with a colon.
local SHARD = ":"
-- How soon maintenance looks at what has something to do, in ms: a little less than
-- workers rest between two passes, so that each pass of a lone worker finds it due.
local LOOK_MS = 750

-- Have maintenance look at a type, or at SHARD, soon (see tend); once in a call is enough.
local stirred = {}
local function stir(job_type)
  if not stirred[job_type] then
    stirred[job_type] = true
    redis.call("ZADD", root .. ":agenda", "LT", now + LOOK_MS, job_type)
  end
end

-- Add to a sum.  One that is not a number begins again: it must not stop a script amid
-- what it writes, and the doctor counts again what can be counted.
local function add_up(key, field, number)
  local sum = redis.pcall("HINCRBY", key, field, number)
  if type(sum) ~= "number" then
    redis.call("HSET", key, field, number)
    return number
  end
  return sum
end

-- Let one sleeping worker look.  The marker carries no job: losing it costs time only.
local function wake(q)
  redis.call("ZADD", q .. "wake", 0, "0")
end
