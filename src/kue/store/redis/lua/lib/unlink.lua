-- Job `id` no longer waits for `parent`, which is on this shard.
local function unlink(parent, id)
  redis.call("ZREM", job .. parent .. ":then", id)
  redis.call("ZREM", job .. parent .. ":finally", id)
  if redis.call("EXISTS", job .. parent .. ":then", job .. parent .. ":finally") == 0 then
    redis.call("SREM", root .. ":parents", parent)
    redis.call("HDEL", root .. ":outbox", "rest:" .. parent)
  end
end
