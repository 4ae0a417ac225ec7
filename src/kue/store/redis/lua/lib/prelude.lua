-- The start of every script: shard, time, and common functions.  The time is the caller's,
-- if given (by tests), else the server's, read once.
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

-- "%d" is several times faster than "%.0f", where it can format numbers of a fence's size.
local WHOLE = string.format("%d", 4503599627370496) == "4503599627370496" and "%d" or "%.0f"

-- Return how the keys of one type begin.
local function queue(job_type)
  return root .. ":" .. job_type .. ":"
end

-- Score that sorts by priority, then first in, first out: 11 bits of priority and 41 bits
-- of sequence are exact in a double.
local function score(priority, id)
  return priority * 2199023255552 + math.floor(id / shards)
end

-- The entry of `:agenda` for what belongs to no type: no type begins with a colon.
local SHARD = ":"
-- Time until maintenance looks at a busy type again, in ms: a little less than a worker
-- waits between two passes, so that each pass of a single worker finds it due.
local LOOK_MS = 750

-- Have maintenance look at a type, or at SHARD, soon (see tend); once per call is enough.
local requested = {}
local function request_maintenance(job_type)
  if not requested[job_type] then
    requested[job_type] = true
    redis.call("ZADD", root .. ":agenda", "LT", now + LOOK_MS, job_type)
  end
end

-- Add to a counter.  One that is not a number is reset: it must not stop a script between
-- two writes, and `kue doctor` counts again what can be counted.
local function add_up(key, field, number)
  local sum = redis.pcall("HINCRBY", key, field, number)
  if type(sum) ~= "number" then
    redis.call("HSET", key, field, number)
    return number
  end
  return sum
end

-- Parents that one call makes forget a job which no longer waits for them; see lib/unlink.
local MAX_UNLINKED = 1000

-- Wake one sleeping worker.  The marker carries no job: losing it only costs time.
local function wake(q)
  redis.call("ZADD", q .. "wake", 0, "0")
end

-- Return a table of functions that `make` fills in when the first of them is needed: most
-- calls need few of them, and making them all takes as long as several commands.
local ON_DEMAND = { __index = function(functions, wanted)
  setmetatable(functions, nil)
  functions.make(functions)
  return functions[wanted]
end }
local function on_demand(make)
  return setmetatable({ make = make }, ON_DEMAND)
end
