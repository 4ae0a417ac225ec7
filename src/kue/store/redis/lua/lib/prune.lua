-- Delete ended jobs that are kept no longer.  `limit` and `pruned` are the script's: how
-- many jobs a pass may delete, and how many it has.
local MAX_PASSED_OVER = 5000

-- Most jobs have nothing but their record: those go in a few commands for all of them.
local function prune_plain(job_type, q, state, ids)
  local keys = {}
  for i, id in ipairs(ids) do
    keys[2 * i - 1], keys[2 * i] = job .. id, job .. id .. ":log"
    tell("remove", id, job_type, 0)
  end
  if state == "failed" then
    for _, id in ipairs(ids) do
      forgive(q, id)
    end
  end
  redis.call("ZREM", q .. state, unpack(ids))
  redis.call("HDEL", q .. "tries", unpack(ids))
  redis.call("UNLINK", unpack(keys))
  unmark_live(ids)
end

local function prune(job_type, q, state, ids)
  if #ids == 0 then
    return
  end
  local plain, is_parent = {}, redis.call("SMISMEMBER", root .. ":parents", unpack(ids))
  for i, id in ipairs(ids) do
    local head = header(id) or { type = job_type }
    if head.is_plain and is_parent[i] == 0 then
      plain[#plain + 1] = id
    else
      erase(id, q, state, head)
    end
  end
  if #plain > 0 then
    prune_plain(job_type, q, state, plain)
  end
  pruned = pruned + #ids
end

-- Prune the oldest `most` of a state, but none that said itself how long it is kept.
local function prune_oldest(job_type, q, state, most, ended_by)
  local offset = 0
  while most > 0 and pruned < limit and offset < MAX_PASSED_OVER do
    local ids = redis.call("ZRANGEBYSCORE", q .. state, "-inf", ended_by,
      "LIMIT", offset, math.min(most, limit))
    if #ids == 0 then
      return
    end
    local ruled, own = {}, redis.call("ZMSCORE", q .. "retain", unpack(ids))
    for i, id in ipairs(ids) do
      if own[i] then
        offset = offset + 1
      elseif #ruled < limit - pruned then
        ruled[#ruled + 1] = id
      end
    end
    prune(job_type, q, state, ruled)
    most = most - #ruled
  end
end

local function prune_rule(job_type, q, state, count, age)
  local excess = count and redis.call("ZCARD", q .. state) - count or 0
  if excess > 0 then
    -- Those that said themselves how long they are kept do not count.
    local own = redis.call("ZINTERCARD", 2, q .. state, q .. "retain")
    prune_oldest(job_type, q, state, excess - own, "+inf")
  end
  if age then
    prune_oldest(job_type, q, state, limit, now - age)
  end
end

local function prune_retained(job_type, q)
  local due = redis.call("ZRANGEBYSCORE", q .. "retain", "-inf", now, "LIMIT", 0,
    math.max(0, limit - pruned))
  for _, id in ipairs(due) do
    local place = place_of(id, q)
    if FINAL[place] then
      prune(job_type, q, place, { id })
    else
      redis.call("ZREM", q .. "retain", id)
    end
  end
end

