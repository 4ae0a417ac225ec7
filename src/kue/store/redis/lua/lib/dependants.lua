-- Notify dependants of how the jobs they wait for ended.
--
-- Bounded by what is looked at, not by what is released: a dependant that still waits for
-- another parent costs as much as one that starts.  One call looks at MAX_DEPENDANTS at
-- most.  Each is removed from its parent's list before it is looked at, so that the list
-- has what is left; the parent is then entered in the outbox, and maintenance continues
-- from there.  Messages to other shards wait in the outbox, too.
local MAX_DEPENDANTS = 200
local looked_at, released = 0, 0
local dependants = on_demand(function(dependants)
  -- End a blocked job's wait: it becomes waiting, or delayed.
  local function release(id, q, head)
    local due = head.at or (now + (head.delay or 0))
    if due > now then
      arrive_delayed(id, q, head, due)
    else
      arrive_waiting(id, q, head)
    end
    released = released + 1
    emit("promotion", id, head.type, 0)
  end

  local function cancel_blocked(id, q, head, reason)
    arrive_final(id, q, head, "cancelled", '"outcome":"cancelled","reason":"' .. reason .. '"}')
    released = released + 1
    emit("cancelled", id, head.type, 0, '{"reason":"' .. reason .. '"}')
    dependants.notify(id, "cancelled")
  end

  -- It waits for no parent any more.  They are touched as well, to forget it.
  local function leave_parents(id, q, head)
    looked_at = looked_at
      + math.floor(math.min(redis.call("SCARD", job .. id .. ":after"), MAX_UNLINKED) / 5)
    depart(id, q, "blocked", head)
  end

  -- It waits for one parent less.
  local function unblock(id, q, head, parent)
    redis.call("SREM", job .. id .. ":after", parent)
    if redis.call("EXISTS", job .. id .. ":after") == 1 then
      return
    end
    redis.call("ZREM", q .. "blocked", id)
    if head.failure == "only" then
      cancel_blocked(id, q, head, "none of the jobs it waited for failed")
    else
      release(id, q, head)
    end
  end

  -- Notify job `id` of this shard how `parent`, which it waits for, ended: what that means is
  -- up to its `on_parent_failure`.
  function dependants.notify_one(id, parent, outcome)
    local head = header(id)
    local q = head and queue(head.type)
    if not head or not redis.call("ZSCORE", q .. "blocked", id) then
      redis.call("SREM", job .. id .. ":after", parent)
      return
    end
    local policy, has_failed = head.failure, outcome == "failed"
    if outcome == "complete" or policy == "run" or (policy == "only" and not has_failed) then
      unblock(id, q, head, parent)
    elseif policy == "only" then
      leave_parents(id, q, head)
      release(id, q, head)
    elseif policy == "cancel" or not has_failed then
      leave_parents(id, q, head)
      cancel_blocked(id, q, head, "job " .. parent .. ", which it waited for, "
        .. (has_failed and outcome or "was " .. outcome))
    end
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

  -- Pass `outcome` of `parent` to the jobs in one of its lists, oldest first.
  local function notify_list(parent, list, outcome)
    local key = job .. parent .. list
    while looked_at < MAX_DEPENDANTS do
      local id = redis.call("ZPOPMIN", key)[1]
      if not id then
        return true
      end
      looked_at = looked_at + 1
      if is_local(id, parent, outcome) then
        dependants.notify_one(id, parent, outcome)
      end
    end
    return redis.call("EXISTS", key) == 0
  end

  -- Outcomes: "complete", "failed", "cancelled", "removed".  A failed job may still be
  -- retried by hand: jobs that need it to succeed, those on `:then`, go on waiting.
  function dependants.notify(parent, outcome)
    if redis.call("SISMEMBER", root .. ":parents", parent) == 0 then
      return
    end
    local all = notify_list(parent, ":finally", outcome)
    if outcome ~= "failed" then
      all = notify_list(parent, ":then", outcome) and all
    end
    if not all then
      redis.call("HSET", root .. ":outbox", "rest:" .. parent, outcome)
      request_maintenance(SHARD)
      return
    end
    redis.call("HDEL", root .. ":outbox", "rest:" .. parent)
    if links.is_childless(parent) then
      redis.call("SREM", root .. ":parents", parent)
    end
  end
end)
