-- Notify dependants of how the jobs they wait for ended.
--
-- Bounded by what is looked at, not by what is released: a dependant that still waits for
-- another parent costs as much as one that starts.  One call looks at MAX_DEPENDANTS at
-- most.  Each is removed from its parent's list before it is looked at, so that the list
-- has what is left; the parent is then entered in the outbox, and maintenance continues
-- from there.  Messages to other shards wait in the outbox, too.
local MAX_DEPENDANTS = 200
local looked_at, released = 0, 0

-- Job `id` no longer waits for `parent`; it is released if that was the last.
local function unblock(id, parent)
  redis.call("SREM", job .. id .. ":after", parent)
  local head = header(id)
  if not head then
    return
  end
  local q = queue(head.type)
  if redis.call("EXISTS", job .. id .. ":after") == 1
    or not redis.call("ZSCORE", q .. "blocked", id) then
    return
  end
  redis.call("ZREM", q .. "blocked", id)
  local due = head.at or (now + (head.delay or 0))
  if due > now then
    arrive_delayed(id, q, head, due)
  else
    arrive_waiting(id, q, head)
  end
  released = released + 1
  emit("promotion", id, head.type, 0)
end

-- Return whether `id` is on this shard; if not, leave the outcome in the outbox.
local function is_local(id, parent, outcome)
  if id % shards == shard then
    return true
  end
  redis.call("HSET", root .. ":outbox", "end:" .. id .. ":" .. parent, outcome)
  request_maintenance(SHARD)
  return false
end

local notify_dependants

-- Cancel a job that waited for `parent` to succeed, which it no longer can.
local function cancel_dependant(id, parent, outcome)
  local head = header(id)
  local q = head and queue(head.type)
  if head and redis.call("ZSCORE", q .. "blocked", id) then
    -- Its other parents are touched as well, to forget it.
    looked_at = looked_at + math.floor(redis.call("SCARD", job .. id .. ":after") / 5)
    depart(id, q, "blocked", head)
    local reason = "job " .. parent .. ", which it waited for, was " .. outcome
    arrive_final(id, q, head, "cancelled",
      '"outcome":"cancelled","reason":"' .. reason .. '"}')
    released = released + 1
    emit("cancelled", id, head.type, 0, '{"reason":"' .. reason .. '"}')
    notify_dependants(id, "cancelled")
  end
end

-- Pass `outcome` of `parent` to the jobs in one of its lists, oldest first.
local function notify_list(parent, list, outcome, act)
  local key = job .. parent .. list
  while looked_at < MAX_DEPENDANTS do
    local id = redis.call("ZPOPMIN", key)[1]
    if not id then
      return true
    end
    looked_at = looked_at + 1
    if is_local(id, parent, outcome) then
      act(id, parent, outcome)
    end
  end
  return redis.call("EXISTS", key) == 0
end

-- Outcomes: "complete", "failed", "cancelled", "removed".  A failed job may still be
-- retried by hand: jobs that need it to succeed go on waiting.
notify_dependants = function(parent, outcome)
  if redis.call("SISMEMBER", root .. ":parents", parent) == 0 then
    return
  end
  local all = notify_list(parent, ":finally", outcome, unblock)
  if outcome == "complete" then
    all = notify_list(parent, ":then", outcome, unblock) and all
  elseif outcome ~= "failed" then
    all = notify_list(parent, ":then", outcome, cancel_dependant) and all
  end
  if not all then
    redis.call("HSET", root .. ":outbox", "rest:" .. parent, outcome)
    request_maintenance(SHARD)
    return
  end
  redis.call("HDEL", root .. ":outbox", "rest:" .. parent)
  if redis.call("EXISTS", job .. parent .. ":then", job .. parent .. ":finally") == 0 then
    redis.call("SREM", root .. ":parents", parent)
  end
end
