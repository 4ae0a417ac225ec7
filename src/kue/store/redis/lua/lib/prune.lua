-- Retention: delete ended jobs by count and by age.  `limit` and `pruned` are the script's:
-- how many jobs a pass may delete, and how many it has.  A pass skips MAX_PASSED_OVER jobs
-- that are not to be pruned, at most, of all types together; `is_cut_short` is set if this
-- ended the walk over a type.
local MAX_PASSED_OVER, PAGE, WALK_MS = 2000, 200, 3600000
local passed_over, is_cut_short = 0, false

-- Most jobs have only a record: a few commands delete all of those.
local function prune_plain(job_type, q, state, ids)
  local keys = {}
  for i, id in ipairs(ids) do
    keys[4 * i - 3], keys[4 * i - 2] = job .. id, job .. id .. ":log"
    keys[4 * i - 1], keys[4 * i] = job .. id .. ":steps", job .. id .. ":stream"
    emit("remove", id, job_type, 0)
  end
  if state == "failed" then
    for _, id in ipairs(ids) do
      remove_failure(q, id)
    end
  end
  redis.call("ZREM", q .. state, unpack(ids))
  redis.call("HDEL", q .. "tries", unpack(ids))
  redis.call("UNLINK", unpack(keys))
  unmark_live(ids)
  if state ~= "complete" then
    removed.mark_lost(ids)
  end
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

-- Jobs with their own retention may be many, and older than all that are to be pruned.  The
-- walk stores how far it came: a score, how many were skipped there, and when it began.
-- Before that none is left to prune.  It begins again after WALK_MS, for jobs that were
-- added later with an older time.
local function begin_walk(field, own)
  if own <= PAGE then
    return "-inf", 0, now
  end
  local score, offset, begun = string.match(
    redis.call("HGET", root .. ":meta", field) or "", "^(%d+):(%d+):(%d+)$")
  if not score or math.abs(now - begun) > WALK_MS then
    return "-inf", 0, now
  end
  return score, tonumber(offset), tonumber(begun)
end

-- Return the ids to prune of a page of the walk, at most `room`, and the scores of those
-- that were skipped.
local function sort_page(page, own, room)
  local ruled, passed = {}, {}
  for i = 1, #page, 2 do
    if own[(i + 1) / 2] then
      passed[#passed + 1] = page[i + 1]
    elseif #ruled == room then
      break
    else
      ruled[#ruled + 1] = page[i]
    end
  end
  return ruled, passed
end

local function ids_of(page)
  local ids = {}
  for i = 1, #page, 2 do
    ids[#ids + 1] = page[i]
  end
  return ids
end

-- Prune the oldest `most` of a state, but none with their own retention.
local function walk(job_type, q, state, most, ended_by, own)
  local field = "pruned:" .. state .. ":" .. job_type
  local from, offset, begun = begin_walk(field, own)
  local reached, there = from, offset
  while most > 0 and pruned < limit and passed_over < MAX_PASSED_OVER do
    local page = redis.call("ZRANGEBYSCORE", q .. state, from, ended_by, "WITHSCORES",
      "LIMIT", offset, PAGE)
    if #page == 0 then
      most = 0
      break
    end
    local is_own = redis.call("ZMSCORE", q .. "retain_" .. state, unpack(ids_of(page)))
    local ruled, passed = sort_page(page, is_own, math.min(most, limit - pruned))
    prune(job_type, q, state, ruled)
    for _, at in ipairs(passed) do
      reached, there = at, at == reached and there + 1 or 1
    end
    most, offset = most - #ruled, offset + #passed
    passed_over = passed_over + #passed
  end
  is_cut_short = is_cut_short or (most > 0 and pruned < limit)
  if own > PAGE and reached ~= "-inf" then
    redis.call("HSET", root .. ":meta", field,
      string.format("%.0f:%d:%.0f", reached, there, begun))
  end
end

local function prune_oldest(job_type, q, state, most, ended_by, own)
  if own > 0 then
    return walk(job_type, q, state, most, ended_by, own)
  end
  prune(job_type, q, state, redis.call("ZRANGEBYSCORE", q .. state, "-inf", ended_by,
    "LIMIT", 0, math.min(most, limit - pruned)))
end

local function prune_rule(job_type, q, state, count, age)
  if not count and not age then
    return
  end
  -- Jobs with their own retention do not count.
  local own = redis.call("ZCARD", q .. "retain_" .. state)
  local excess = count and redis.call("ZCARD", q .. state) - count or 0
  if excess - own > 0 then
    prune_oldest(job_type, q, state, excess - own, "+inf", own)
  end
  if age then
    prune_oldest(job_type, q, state, limit, now - age, own)
  end
end

-- Prune jobs whose own retention has passed.
local function prune_retained(job_type, q, state)
  local due = redis.call("ZRANGEBYSCORE", q .. "retain_" .. state, "-inf", now,
    "LIMIT", 0, limit - pruned)
  for _, id in ipairs(due) do
    if redis.call("ZSCORE", q .. state, id) then
      prune(job_type, q, state, { id })
    else
      redis.call("ZREM", q .. "retain_" .. state, id)
    end
  end
end
