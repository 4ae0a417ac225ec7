-- Requeue the best held job of a group.  One too many does no harm: the claim that looks
-- at it holds it again.
local function release_held(q, group)
  local best = redis.call("ZRANGE", q .. "held:" .. group, 0, 0, "WITHSCORES")
  if best[1] then
    redis.call("ZREM", q .. "held:" .. group, best[1])
    redis.call("ZREM", q .. "held", best[1])
    redis.call("ZADD", q .. "waiting", best[2], best[1])
    wake(q)
  end
end

-- Free a slot of a group, for its best held job.
local function free_slot(q, group)
  if add_up(q .. "running", group, -1) <= 0 then
    redis.call("HDEL", q .. "running", group)
  end
  release_held(q, group)
end

-- Free the unique key, unless it is to outlast the job.
local function free_unique(q, head, id, even_early)
  local held = head.unique and redis.call("HGET", q .. "unique", head.unique)
  if held and string.match(held, "^%d+") == tostring(id) then
    local till = tonumber(string.match(held, "^%d+:(%d+)")) or 0
    if even_early or till <= now then
      redis.call("HDEL", q .. "unique", head.unique)
      if even_early or head.unique_at_most then
        redis.call("ZREM", q .. "lapse", head.unique)
      end
    else
      redis.call("ZADD", q .. "lapse", till, head.unique)
    end
  end
end

-- Free the unique key of a job that starts; until its least time, it still holds the key.
local function free_unique_at_start(q, head, id)
  free_unique(q, head, id)
  local held = head.unique and redis.call("HGET", q .. "unique", head.unique)
  if held and string.match(held, "^%d+") == tostring(id) then
    local till = string.match(held, "^%d+:(%d+)")
    redis.call("HSET", q .. "unique", head.unique, id .. ":" .. till .. ":" .. till)
  end
end

-- Remove the job from the structure it is in; the caller adds it to another (arrive).
local function depart(id, q, place, head)
  if place == "active" then
    redis.call("HDEL", q .. "active", id)
    redis.call("HDEL", q .. "progress", id)
    redis.call("HDEL", root .. ":cancelling", id)
    if head.ttl then
      redis.call("ZREM", q .. "ttl", id)
    end
    if head.group then
      free_slot(q, head.group)
    end
    if head.limits then
      named.leave(id, head)
    end
    if redis.call("ZCARD", q .. "waiting") > 0 then
      wake(q)
    end
    return
  end
  redis.call("ZREM", q .. place, id)
  if place == "waiting" then
    -- It may have been released for a slot that it now does not take.
    if head.group then
      release_held(q, head.group)
    end
    if head.limits then
      named.offer(head)
    end
  elseif place == "held" then
    if head.group then
      redis.call("ZREM", q .. "held:" .. head.group, id)
    end
    if head.limits then
      named.unhold(id, head)
    end
  elseif place == "blocked" then
    links.forget_parents(id)
  elseif FINAL[place] then
    redis.call("ZREM", q .. "retain_" .. place, id)
    if place == "failed" then
      remove_failure(q, id)
    end
  end
end
