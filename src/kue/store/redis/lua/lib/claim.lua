-- Claim the first waiting jobs of some types: start them by priority, then age.
-- Fills `taken` with id, token, record; three values per job.  Pauses, rate limits and
-- concurrency limits apply: what they hold back is not claimed.
local taken, stalls, next_at = {}, {}, nil
local has_named_limits = false
-- Jobs that one claim looks at, and about how many bytes of them it reads.
local MAX_LOOKED_AT, MAX_READ = 1000, 1048576
local bytes_read = 0

local function sooner(time)
  if time and (not next_at or time < next_at) then
    next_at = time
  end
end

-- Sort the first waiting jobs into those to start and those to hold, expire or park.
-- All of them leave `waiting`, so that the next look never sees them again.
local function look(entry, ids, records)
  local q, limits = entry.q, entry.limits
  for i, id in ipairs(ids) do
    local record = records[i]
    bytes_read = bytes_read + (record and #record or 0)
    entry.seen = entry.seen + 1
    local star = record and string.byte(record) == 42 -- "*": a header with options
    if not record or not (star or string.find(record, entry.mark, 1, true)) then
      entry.parked[#entry.parked + 1] = id
    elseif not star then
      local n = entry.starting + 1
      entry.starting, entry.ids[n], entry.records[n] = n, id, record
    else
      local head = read_header(record)
      local group = head and head.group
      local per_key = group and limits and limits.per_key
      local running = per_key and (entry.running[group]
        or tonumber(redis.call("HGET", q .. "running", group) or 0) or 0)
      if not head then
        entry.parked[#entry.parked + 1] = id
      elseif head.expires and head.created + head.expires <= now then
        entry.expired[#entry.expired + 1] = { id = id, head = head }
      elseif per_key and running >= per_key then
        entry.held[#entry.held + 1] = { id = id, head = head }
        entry.running[group] = running
      elseif head.limits and named.full(head) then
        entry.held[#entry.held + 1] = { id = id, head = head, by = named.full(head) }
      else
        if per_key then
          entry.running[group] = running + 1
        end
        if head.limits then
          named.pick(head)
        end
        local n = entry.starting + 1
        entry.starting, entry.ids[n], entry.records[n] = n, id, record
        entry.heads[n] = head
      end
    end
  end
end

local function records_of(ids)
  local keys = {}
  for i, id in ipairs(ids) do
    keys[i] = job .. id
  end
  return redis.call("MGET", unpack(keys))
end

-- With several types the best jobs of all come first: find how many each type has of those.
local function shares(entries, want)
  local best = {}
  for _, entry in ipairs(entries) do
    local most = math.min(want, entry.allowed - entry.starting)
    local ranked = most > 0 and redis.call("ZRANGE", entry.q .. "waiting", entry.seen,
      entry.seen + most - 1, "WITHSCORES") or {}
    local last = -math.huge
    for i = 2, #ranked, 2 do
      local rank = tonumber(ranked[i])
      if entry.order then
        -- No better than the one before it, or it would not be the next of its type.
        rank = math.max(last, ranks.beside_others(entry.order, rank, ranked[i - 1]))
        last = rank
      end
      best[#best + 1] = { score = rank, entry = entry }
    end
    entry.share = 0
  end
  table.sort(best, function(a, b) return a.score < b.score end)
  for i = 1, math.min(want, #best) do
    best[i].entry.share = best[i].entry.share + 1
  end
end

-- Return the ids of a type's share.  Where scores do not follow from the jobs, keep them for
-- those that have to be held.
local function first_ids(entry)
  local from, to = entry.seen, entry.seen + entry.share - 1
  if not entry.order then
    return redis.call("ZRANGE", entry.q .. "waiting", from, to)
  end
  local ids, ranked = {}, redis.call("ZRANGE", entry.q .. "waiting", from, to, "WITHSCORES")
  for i = 1, #ranked, 2 do
    ids[#ids + 1] = ranked[i]
    entry.scores[ranked[i]] = ranked[i + 1]
  end
  return ids
end

-- Look at the best jobs not yet looked at until `limit` can start: one that cannot makes
-- room for the next best, of any type.  Begins with few, to see how large they are: those
-- that do not fit this claim wait for the next.
local function look_into(entries, limit)
  local started, looked, few = 0, 0, 16
  repeat
    local want, found = math.min(limit - started, few), 0
    if #entries == 1 then
      entries[1].share = math.min(want, entries[1].allowed - entries[1].starting)
    else
      shares(entries, want)
    end
    for _, entry in ipairs(entries) do
      local ids = entry.share > 0 and first_ids(entry) or {}
      if #ids > 0 then
        local before = entry.starting
        look(entry, ids, records_of(ids))
        started = started + entry.starting - before
        found = found + #ids
      end
    end
    looked = looked + found
    few = math.min(4 * few, math.ceil((MAX_READ - bytes_read) * looked / bytes_read))
  until found == 0 or started >= limit or looked >= MAX_LOOKED_AT
    or bytes_read >= MAX_READ
  if bytes_read >= MAX_READ and started < limit then
    sooner(now)
  end
end

local function start(entry, suffix, fence)
  local q, ids, n = entry.q, entry.ids, entry.starting
  if n == 0 then
    return fence
  end
  local runs, started = {}, ":" .. now .. ":"
  local tries = entry.has_tries and redis.call("HMGET", q .. "tries", unpack(ids)) or {}
  local t = #taken
  for i = 1, n do
    -- Text, like all parts of a token: formatting numbers is the cost of this loop.
    local id, attempt = ids[i], "1"
    if tries[i] then
      local made, lost = string.match(tries[i], "^(%d+):(%d+)$")
      attempt = tostring((tonumber(made) or 0) + 1)
      if lost and lost ~= "0" then
        stalls[#stalls + 1] = id
        stalls[#stalls + 1] = lost
      end
    end
    fence = fence + 1
    local token = string.format(WHOLE, fence) .. started .. attempt .. suffix
    runs[2 * i - 1], runs[2 * i] = id, token
    taken[t + 1], taken[t + 2], taken[t + 3] = id, token, entry.records[i]
    t = t + 3
    local head = entry.heads[i]
    if head then
      if head.ttl then
        redis.call("ZADD", q .. "ttl", now + head.ttl, id)
      end
      if head.expires then
        redis.call("ZREM", q .. "expires", id)
      end
      if head.group then
        add_up(q .. "running", head.group, 1)
      end
      if head.limits then
        named.enter(id, head)
      end
      if head.unique_until == "start" then
        free_unique_at_start(q, head, id)
      end
    end
    if has_listeners or has_watched then
      emit("start", id, entry.type, attempt)
    end
  end
  redis.call("HSET", q .. "active", unpack(runs))
  if entry.limits and entry.limits.rate then
    spend_rate(q, entry.limits, n)
  end
  return fence
end

-- What only some claims need.
local claiming = on_demand(function(claiming)
  -- Answer a repeated claim with those of its runs that still go on.
  function claiming.replay(types, suffix)
    for _, job_type in ipairs(types) do
      local runs = redis.call("HGETALL", queue(job_type) .. "active")
      for i = 1, #runs, 2 do
        if string.sub(runs[i + 1], -#suffix) == suffix then
          taken[#taken + 1] = runs[i]
          taken[#taken + 1] = runs[i + 1]
          taken[#taken + 1] = redis.call("GET", job .. runs[i]) or ""
          local tries = redis.call("HGET", queue(job_type) .. "tries", runs[i])
          stalls[#stalls + 1] = runs[i]
          stalls[#stalls + 1] = string.match(tries or "", ":(%d+)$") or "0"
        end
      end
    end
  end

  local function is_full(entry, group)
    local per_key = entry.limits and entry.limits.per_key
    local running = entry.running[group]
      or tonumber(redis.call("HGET", entry.q .. "running", group) or 0) or 0
    return per_key ~= nil and running >= per_key
  end

  -- A job that cannot start may have been released for a slot that it does not take.
  local function offer_slots(entry, head)
    if head.group and not is_full(entry, head.group) then
      release_held(entry.q, head.group)
    end
    if head.limits then
      named.offer(head)
    end
  end

  -- Park, hold or expire the jobs that cannot start.
  function claiming.set_aside(entry, expired_tail)
    local q = entry.q
    for _, id in ipairs(entry.parked) do
      redis.call("ZADD", q .. "parked", now, id)
      emit("error", id, entry.type, 0, '{"message":"its record cannot be read"}')
    end
    for _, found in ipairs(entry.held) do
      local head = found.head
      local rank = entry.scores[found.id] or score(head.priority, found.id)
      if found.by then
        named.hold(found.id, q, found.by, rank)
      else
        redis.call("ZADD", q .. "held", rank, found.id)
        redis.call("ZADD", q .. "held:" .. head.group, rank, found.id)
      end
      offer_slots(entry, head)
    end
    for _, found in ipairs(entry.expired) do
      offer_slots(entry, found.head)
      local line = failures.expired_line(found.id, q, expired_tail)
      arrive_final(found.id, q, found.head, "failed", line)
      emit("failed", found.id, entry.type, 0, "{" .. line)
      dependants.notify(found.id, "failed")
    end
  end
end)

-- Fencing tokens grow with the time, so that a stored one that is damaged can be ignored.
local function last_fence()
  local last = tonumber(redis.call("GET", root .. ":fence") or 0)
  return last and last < 9007199254740992 and last or 0
end

local function claim(types, limit, suffix, expired_tail)
  -- Check.
  local fence = math.max(last_fence(), micros)
  local pauses = redis.call("HMGET", root .. ":paused", "", unpack(types))
  local limits = redis.call("EXISTS", root .. ":limits") == 1
    and redis.call("HMGET", root .. ":limits", unpack(types)) or {}
  local all_paused, all_till = is_paused(pauses[1])
  local entries = {}
  for i, job_type in ipairs(types) do
    local q = queue(job_type)
    promote(job_type, q, 200)
    if has_named_limits then
      named.release_opened(q)
    end
    local paused, till = is_paused(pauses[i + 1])
    if all_paused or paused then
      -- Both must be over; a pause without an end needs `resume`, which wakes workers.
      if (not all_paused or all_till) and (not paused or till) then
        sooner(math.max(all_till or 0, till or 0))
      end
    else
      local entry = { type = job_type, q = q, mark = "\t" .. job_type .. "\n", limits = read_limits(limits[i]), seen = 0,
        has_tries = redis.call("EXISTS", q .. "tries") == 1,
        starting = 0, ids = {}, records = {}, heads = {},
        parked = {}, held = {}, expired = {}, running = {}, scores = {},
        order = limits[i] and ranks.read_rule(limits[i]) }
      local allowed, next_start = allowance(q, entry.limits, limit)
      sooner(next_start)
      entry.allowed, entry.gated = allowed, allowed == 0
      entries[#entries + 1] = entry
    end
  end
  if #entries > 0 then
    look_into(entries, limit)
  end

  -- Move.
  local first = fence
  for _, entry in ipairs(entries) do
    if entry.seen > 0 then
      redis.call("ZREMRANGEBYRANK", entry.q .. "waiting", 0, entry.seen - 1)
    end
    fence = start(entry, suffix, fence)
    if entry.seen > entry.starting then
      claiming.set_aside(entry, expired_tail)
    end
    -- Wake another worker, unless a limit is reached: that wakes one when it frees.
    if not entry.gated and redis.call("ZCARD", entry.q .. "waiting") > 0 then
      local allowed, next_start = allowance(entry.q, entry.limits, 1)
      sooner(next_start)
      if allowed > 0 then
        wake(entry.q)
      end
    end
  end
  if has_named_limits then
    named.spend()
  end
  if fence > first then
    redis.call("SET", root .. ":fence", string.format("%.0f", fence))
  end
  if #taken < 3 * limit then
    for _, job_type in ipairs(types) do
      local due = redis.call("ZRANGE", queue(job_type) .. "delayed", 0, 0, "WITHSCORES")
      sooner(tonumber(due[2]))
      if has_named_limits then
        sooner(tonumber(redis.call("ZRANGE", queue(job_type) .. "opens", 0, 0,
          "WITHSCORES")[2]))
      end
    end
  end
end
