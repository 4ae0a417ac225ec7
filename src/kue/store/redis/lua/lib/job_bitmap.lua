-- Live bitmaps: one bit per existing job, in strings of 65,536 bits.  Pages over all states
-- read these instead of an index, which would take more memory than the jobs.
local LIVE_CHUNK = 65536

local function set_live(seq, bit)
  local chunk = math.floor(seq / LIVE_CHUNK)
  local key = root .. ":live:" .. chunk
  redis.call("SETBIT", key, seq - chunk * LIVE_CHUNK, bit)
  return key
end

-- Before the first write: check that the bitmaps of these numbers are strings.
local function check_live(first, last)
  for chunk = math.floor(first / LIVE_CHUNK), math.floor(last / LIVE_CHUNK) do
    redis.call("STRLEN", root .. ":live:" .. chunk)
  end
end

-- Set the bits of new sequence numbers: whole bytes at once, the ends bit by bit.
local function mark_live(first, last)
  while first <= last do
    local chunk = math.floor(first / LIVE_CHUNK)
    local offset = first - chunk * LIVE_CHUNK
    local bytes = math.floor((math.min(last + 1, (chunk + 1) * LIVE_CHUNK) - first) / 8)
    if offset % 8 == 0 and bytes > 0 then
      redis.call("SETRANGE", root .. ":live:" .. chunk, offset / 8,
        string.rep("\255", bytes))
      first = first + 8 * bytes
    else
      set_live(first, 1)
      first = first + 1
    end
  end
end

local function unmark_live(ids)
  local keys = {}
  for _, id in ipairs(ids) do
    keys[set_live(math.floor(id / shards), 0)] = true
  end
  for key in pairs(keys) do
    if redis.call("BITCOUNT", key) == 0 then
      redis.call("DEL", key)
    end
  end
end

-- Lost bitmaps, of the same layout: one bit per job that was removed without having
-- succeeded, of the newest REMEMBERED jobs.  A removed one without a bit had succeeded.
-- Damage of a bitmap must not stop a script between two writes: hence pcall.
local removed = { CHUNKS = 0, REMEMBERED = 10000000 }
-- The chunks that so many numbers can lie in.
removed.CHUNKS = math.ceil(removed.REMEMBERED / LIVE_CHUNK) + 1

function removed.last_seq()
  local last = not removed.last and redis.pcall("GET", root .. ":ids")
  removed.last = removed.last or type(last) == "string" and tonumber(last) or 0
  return removed.last
end

function removed.mark_lost(ids)
  for _, id in ipairs(ids) do
    local seq = math.floor(id / shards)
    local chunk = math.floor(seq / LIVE_CHUNK)
    if seq > removed.last_seq() - removed.REMEMBERED then
      redis.pcall("SETBIT", root .. ":lost:" .. chunk, seq - chunk * LIVE_CHUNK, 1)
    end
  end
end

-- Return how a job that does not exist counts: "complete" or "removed"; nil if there
-- never was one.
function removed.outcome(id)
  local seq = math.floor(id / shards)
  local chunk = math.floor(seq / LIVE_CHUNK)
  if seq < 1 or seq > removed.last_seq() then
    return nil
  end
  local is_complete = seq > removed.last_seq() - removed.REMEMBERED
    and redis.pcall("GETBIT", root .. ":lost:" .. chunk, seq - chunk * LIVE_CHUNK) == 0
  return is_complete and "complete" or "removed"
end
