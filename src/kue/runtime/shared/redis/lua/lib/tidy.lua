local function remove(key)
  redis.call("HDEL", map, key)
  redis.call("ZREM", ends, key)
end

-- Removes some expired entries: more than one change can add.  A map all of whose
-- entries expire gets an expiry time as well, so that Redis removes it when nobody
-- uses it any more.
local function tidy()
  local expired = redis.call("ZRANGEBYSCORE", ends, "-inf", now, "LIMIT", 0, 20)
  for _, key in ipairs(expired) do
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
