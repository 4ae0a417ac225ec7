-- Statistics: add full minutes to their hours, each once.  The last one added is stored,
-- and the next pass begins after it.  A minute may have a few fields for every type that
-- was busy in it: one with very many is added in several passes.
local FIELDS_PER_PASS = 2000

local function hour_of(minute)
  return root .. ":hours:" .. math.floor(minute / 60)
end

-- Return the minutes to add now, the last minute that is then done, and where in the first
-- of them the last pass stopped.
local function unrolled(minutes_kept, minutes_per_pass)
  local full = math.floor(now / 60000) - 1
  local meta = redis.call("HMGET", root .. ":meta", "rolled", "rolling")
  local rolled = tonumber(meta[1]) or 0
  local begun, cursor = string.match(meta[2] or "", "^(%d+):(%d+)$")
  local found, fields, last = {}, 0, full > rolled and full or nil
  for minute = math.max(rolled + 1, full - minutes_kept), full do
    local size = redis.call("HLEN", root .. ":stats:" .. minute)
    if size > 0 then
      if #found == minutes_per_pass or fields >= FIELDS_PER_PASS then
        last = minute - 1
        break
      end
      redis.call("HLEN", hour_of(minute))
      found[#found + 1], fields = minute, fields + size
    end
  end
  return found, last, tonumber(begun) == found[1] and cursor
end

local function add_to_hour(hour, field, value)
  if string.find(value, "=", 1, true) then
    add_buckets(hour, field, value)
  else
    local known = tonumber(redis.call("HGET", hour, field) or 0) or 0
    local sum = known + (tonumber(value) or 0)
    redis.call("HSET", hour, field, string.format("%.0f", sum))
  end
  if string.find(field, ":work_ms$") then
    add_up(root .. ":meta", "work_ms", tonumber(value) or 0)
  end
end

-- Return whether all of it was added.  A full minute no longer changes, so that a cursor
-- stays valid from one pass to the next.
local function roll_up(minutes, last, cursor, hours_kept)
  local fields = 0
  for _, minute in ipairs(minutes) do
    cursor = cursor or "0"
    repeat
      if fields >= FIELDS_PER_PASS then
        redis.call("HSET", root .. ":meta", "rolled", minute - 1,
          "rolling", minute .. ":" .. cursor)
        return false
      end
      local page = redis.call("HSCAN", root .. ":stats:" .. minute, cursor, "COUNT", 500)
      for i = 1, #page[2], 2 do
        add_to_hour(hour_of(minute), page[2][i], page[2][i + 1])
      end
      cursor, fields = page[1], fields + #page[2] / 2
    until cursor == "0"
    redis.call("EXPIRE", hour_of(minute), hours_kept * 3600)
    cursor = nil
  end
  if last then
    redis.call("HSET", root .. ":meta", "rolled", last)
    redis.call("HDEL", root .. ":meta", "rolling")
  end
  return true
end
