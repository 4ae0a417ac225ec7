-- Pauses, concurrency limits and rate limits: what they allow.  lib/claim enforces them.

-- Return whether a pause is in force, and when it ends, if it does so automatically.  It is
-- kept as "until<tab>JSON", with an empty until if it has no end.
local function is_paused(pause)
  if not pause then
    return false
  end
  local till = tonumber(string.match(pause, "^%d*"))
  if till and till <= now then
    return false
  end
  return true, till
end

-- Limits are kept as "concurrency rate per per_key", "-" for none.
local function read_limits(text)
  if not text then
    return nil
  end
  local concurrency, rate, per, per_key = string.match(text, "^(%S+) (%S+) (%S+) (%S+)$")
  return { concurrency = tonumber(concurrency), rate = tonumber(rate),
    per = tonumber(per), per_key = tonumber(per_key) }
end

-- Return how many runs the rate limit allows now, and when the next one may start.
local function rate_left(q, limits)
  local saved = redis.call("HMGET", q .. "rate", "left", "at")
  local left = tonumber(saved[1]) or limits.rate
  local at = tonumber(saved[2]) or now
  left = math.min(limits.rate, left + math.max(0, now - at) * limits.rate / limits.per)
  local missing = math.max(0, 1 - left)
  return left, now + math.ceil(missing * limits.per / limits.rate)
end
