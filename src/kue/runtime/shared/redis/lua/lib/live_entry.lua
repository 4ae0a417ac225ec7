-- The text of an entry; false if there is none, or if it has expired.
local function find(key)
  local last = redis.call("ZSCORE", ends, key)
  if last and tonumber(last) <= now then
    return false
  end
  return redis.call("HGET", map, key)
end
