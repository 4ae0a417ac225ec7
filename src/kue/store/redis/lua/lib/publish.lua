-- Events: those of one call are published as one message, and only if someone subscribes.
-- Mostly nobody does, which one command shows.  Messages are numbered: Redis may lose some,
-- as when a subscriber is connected to a node that was replaced by another.
local is_observed = redis.call("EXISTS", root .. ":listeners", root .. ":watched") > 0
local has_listeners = is_observed and redis.call("ZCARD", root .. ":listeners") > 0
local has_watched = is_observed and not has_listeners
  and redis.call("ZCARD", root .. ":watched") > 0
local meta = is_observed and redis.call("HMGET", root .. ":meta", "told", "quiet") or {}
local number = tonumber(meta[1]) or 0
-- Whether there may be jobs whose events are off.
local has_quiet = meta[2]
local events = {}

local function is_quiet(id)
  local text = redis.pcall("GETRANGE", job .. id, 0, 5119)
  local first_line = type(text) == "string" and string.match(text, "^[^\n]*") or ""
  return string.find(first_line, "\tquiet=1", 1, true) ~= nil
end

-- `head` is the header of a job whose record is gone.
local function emit(kind, id, job_type, attempt, detail, head)
  if (has_listeners or (has_watched and redis.call("ZSCORE", root .. ":watched", id)))
    and not (has_quiet and (head and head.quiet or is_quiet(id))) then
    events[#events + 1] = table.concat(
      { kind, id, job_type, now, attempt, detail or "" }, "\t")
  end
end

local function publish()
  if #events > 0 then
    -- Starts again at 1 if the last number is damaged.
    local whole = string.format(WHOLE, number < 2 ^ 53 and number + 1 or 1)
    redis.call("HSET", root .. ":meta", "told", whole)
    redis.call("SPUBLISH", root .. ":events", whole .. "\n" .. table.concat(events, "\n"))
  end
end
