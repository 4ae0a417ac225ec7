-- Parents of a job that is about to wait: how each ended, and what that means to the job.
local parents = { how = {} }

-- Return how a job of this shard ended: "complete", "failed", "cancelled", "removed", or
-- "open".  Looked up once, however many jobs wait for it.
function parents.ended(id)
  if not parents.how[id] then
    local head = header(id)
    local place = head and place_of(id, queue(head.type))
    parents.how[id] = not head and removed.outcome(id)
      or (not place or place == "parked") and "removed" or FINAL[place] and place or "open"
  end
  return parents.how[id]
end

-- Return the parents that are still waited for; why the job can never run; and whether a
-- failed one releases it.  `ended` returns how one of this shard ended; one of another is
-- open, unless `parents.how` knows better.
function parents.sort(ids, policy, ended)
  local open, reason, is_released = {}, nil, false
  for _, parent in ipairs(ids) do
    local how = parent % shards == shard and ended(parent) or parents.how[parent] or "open"
    if how == "open" or (how == "failed" and policy == "block") then
      open[#open + 1] = parent
    elseif how == "failed" and policy == "only" then
      is_released = true
    elseif how ~= "complete" and (policy == "block" or policy == "cancel") then
      reason = reason or "job " .. parent .. ", which it waited for, "
        .. (how == "failed" and how or "was " .. how)
    end
  end
  if is_released then
    open = {}
  elseif #open == 0 and #ids > 0 and policy == "only" then
    reason = reason or "none of the jobs it waited for failed"
  end
  return open, reason, is_released
end

-- Have a blocked job of this shard wait for another job; `policy` is its
-- on_parent_failure.
function parents.link(id, parent, policy)
  redis.call("SADD", job .. id .. ":after", parent)
  if parent % shards == shard then
    redis.call("ZADD", job .. parent .. (policy == "block" and ":then" or ":finally"), id, id)
    redis.call("SADD", root .. ":parents", parent)
  else
    -- It may have waited before, and have the parent yet to forget it.
    redis.call("HDEL", root .. ":outbox", "unlink:" .. id .. ":" .. parent)
    redis.call("HSET", root .. ":outbox", "link:" .. id .. ":" .. parent,
      policy == "block" and "0" or "1")
    request_maintenance(SHARD)
  end
end
