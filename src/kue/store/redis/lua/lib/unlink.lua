-- Links between a job and those that it waits for, seen from these: `links` has functions.
local links = {}

-- Return whether nobody waits for a job of this shard, and it has no flow.
function links.is_childless(parent)
  return redis.call("EXISTS", job .. parent .. ":then", job .. parent .. ":finally",
    root .. ":flow:" .. parent) == 0
end

-- Job `id` no longer waits for `parent`, which is on this shard.
function links.remove(parent, id)
  redis.call("ZREM", job .. parent .. ":then", id)
  redis.call("ZREM", job .. parent .. ":finally", id)
  if links.is_childless(parent) then
    redis.call("SREM", root .. ":parents", parent)
    redis.call("HDEL", root .. ":outbox", "rest:" .. parent)
  end
end

function links.remove_anywhere(parent, id)
  if parent % shards == shard then
    links.remove(parent, id)
  else
    redis.call("HDEL", root .. ":outbox", "link:" .. id .. ":" .. parent)
    redis.call("HSET", root .. ":outbox", "unlink:" .. id .. ":" .. parent, "")
    request_maintenance(SHARD)
  end
end

-- A job that leaves `blocked` waits for nobody any more.  If that were too many to forget
-- it in one call, maintenance goes through them: `:left` has those that still list it.
function links.forget_parents(id)
  local after, left = job .. id .. ":after", job .. id .. ":left"
  if redis.call("SCARD", after) <= MAX_UNLINKED then
    for _, parent in ipairs(redis.call("SMEMBERS", after)) do
      links.remove_anywhere(parent, id)
    end
    redis.call("DEL", after)
    return
  end
  if redis.call("EXISTS", left) == 1 then
    redis.call("SUNIONSTORE", left, left, after)
    redis.call("UNLINK", after)
  else
    redis.call("RENAME", after, left)
  end
  redis.call("HSET", root .. ":outbox", "left:" .. id, "")
  request_maintenance(SHARD)
end

-- Forget some of them; return how many were looked at.
function links.forget_some(id, most)
  local parents = redis.call("SPOP", job .. id .. ":left", most)
  for _, parent in ipairs(parents) do
    -- Since then it may have been replaced by one that waits for the same.
    if tonumber(parent) and redis.call("SISMEMBER", job .. id .. ":after", parent) == 0 then
      links.remove_anywhere(parent, id)
    end
  end
  if #parents < most then
    redis.call("HDEL", root .. ":outbox", "left:" .. id)
  end
  return #parents
end
