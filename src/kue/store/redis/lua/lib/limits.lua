-- Pauses, concurrency limits and rate limits are enforced here: how many jobs may start.

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

-- Limits are kept as "concurrency rate per per_key …", "-" for none; lib/rank reads the rest.
local function read_limits(text)
  if not text then
    return nil
  end
  local concurrency, rate, per, per_key = string.match(text, "^(%S+) (%S+) (%S+) (%S+)")
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

-- Spend the rate limit for jobs that start.
local function spend_rate(q, limits, started)
  redis.call("HSET", q .. "rate", "left", rate_left(q, limits) - started, "at", now)
end

-- Return how many jobs of the type may start, at most `limit`; and when the next one may,
-- if the rate limit is spent.
local function allowance(q, limits, limit)
  if not limits then
    return limit
  end
  local next_start
  if limits.concurrency then
    limit = math.min(limit, limits.concurrency - redis.call("HLEN", q .. "active"))
  end
  if limits.rate then
    local left, free_at = rate_left(q, limits)
    next_start = left < 1 and free_at or nil
    limit = math.min(limit, math.floor(left))
  end
  return math.max(0, limit), next_start
end
