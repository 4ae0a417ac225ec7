local function remove(key)
  redis.call("HDEL", map, key)
  redis.call("ZREM", ends, key)
end

-- Removes some entries that have ended: more than one change can add.  A map all of whose
-- entries end is given an end itself, so that Redis removes it when nobody comes again.
local function tidy()
  local over = redis.call("ZRANGEBYSCORE", ends, "-inf", now, "LIMIT", 0, 20)
  for _, key in ipairs(over) do
    remove(key)
  end
  local timed = redis.call("ZCARD", ends)
  if timed > 0 and timed == redis.call("HLEN", map) then
    local last = redis.call("ZRANGE", ends, -1, -1, "WITHSCORES")[2]
    redis.call("PEXPIREAT", map, last)
    redis.call("PEXPIREAT", ends, last)
  else
    redis.call("PERSIST", map)
    redis.call("PERSIST", ends)
  end
end
