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
