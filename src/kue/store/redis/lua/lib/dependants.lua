-- Notify dependants of how the jobs they wait for ended.
--
-- Bounded by what is looked at, not by what is released: a dependant that goes on waiting
-- for another parent costs as much as one that starts.  One call looks at MAX_DEPENDANTS
-- at most.  Each is taken out of its parent's list before it is looked at, so the list
-- itself remembers how far it was read; the parent then stands in the outbox, and
-- maintenance goes on from there.  What another shard must hear waits there, too.
local MAX_DEPENDANTS = 200
local looked_at, released = 0, 0

-- Job `id` need no longer wait for `parent`; it goes on when that was the last.
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
  tell("promotion", id, head.type, 0)
end

local function link_end(id, parent, outcome)
  if id % shards == shard then
    return true
  end
  redis.call("HSET", root .. ":outbox", "end:" .. id .. ":" .. parent, outcome)
  stir(SHARD)
  return false
end

local tell_dependants

-- `parent` will never end well: neither will what waits for that.
local function give_up(id, parent, outcome)
  local head = header(id)
  local q = head and queue(head.type)
  if head and redis.call("ZSCORE", q .. "blocked", id) then
    -- Each other parent has to forget it, and is looked at for that.
    looked_at = looked_at + math.floor(redis.call("SCARD", job .. id .. ":after") / 5)
    depart(id, q, "blocked", head)
    local reason = "job " .. parent .. ", which it waited for, was " .. outcome
    arrive_final(id, q, head, "cancelled",
      '"outcome":"cancelled","reason":"' .. reason .. '"}')
    released = released + 1
    tell("cancelled", id, head.type, 0, '{"reason":"' .. reason .. '"}')
    tell_dependants(id, "cancelled")
  end
end

-- Hand `outcome` of `parent` to the jobs in one of its lists, oldest first.
local function tell_list(parent, list, outcome, act)
  local key = job .. parent .. list
  while looked_at < MAX_DEPENDANTS do
    local id = redis.call("ZPOPMIN", key)[1]
    if not id then
      return true
    end
    looked_at = looked_at + 1
    if link_end(id, parent, outcome) then
      act(id, parent, outcome)
    end
  end
  return redis.call("EXISTS", key) == 0
end

-- Outcomes: "complete", "failed", "cancelled", "removed".  A failed job may yet be
-- retried by hand: those who need it to end well go on waiting for that.
tell_dependants = function(parent, outcome)
  if redis.call("SISMEMBER", root .. ":parents", parent) == 0 then
    return
  end
  local all = tell_list(parent, ":finally", outcome, unblock)
  if outcome == "complete" then
    all = tell_list(parent, ":then", outcome, unblock) and all
  elseif outcome ~= "failed" then
    all = tell_list(parent, ":then", outcome, give_up) and all
  end
  if not all then
    redis.call("HSET", root .. ":outbox", "rest:" .. parent, outcome)
    stir(SHARD)
    return
  end
  redis.call("HDEL", root .. ":outbox", "rest:" .. parent)
  if redis.call("EXISTS", job .. parent .. ":then", job .. parent .. ":finally") == 0 then
    redis.call("SREM", root .. ":parents", parent)
  end
end
