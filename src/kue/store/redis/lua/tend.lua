#!lua flags=allow-oom
--[[
  tend: one bounded pass of upkeep over a shard.

  Any number of processes may run it: each job is moved by exactly one.  What needs a
  decision about a job (its worker was lost, its ttl passed) is only reported; the caller
  decodes it, decides, and ends the run with `cycle`, which checks again that it is due.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now      Unix ms, or empty for the server's clock
    2  shards   how many there are
    3  shard    which one this is
    4  limit    jobs to move or report at most, of each kind
    5  lease    ms, for leases set anew
    6  gap      ms without tending after which leases get a grace
    7  tail     what the story of an expired job says
    8  keep     complete_count,complete_age,failed_count,failed_age,
                cancelled_count,cancelled_age; "-" for no limit; empty to prune nothing
    9  minutes  how many are kept of the statistics, and
    10          how many with counters to add to their hours at most
    11 hours    how many are kept
    12 stacks   ms that a worker's are

  When nothing goes on and nothing is due for a while, it leaves `:quiet` behind until
  then: while that is there a pass would find nothing to do.  Whoever changes something
  takes it away (stir, in lib/start).

  Returns  {promoted, expired, pruned, released, more, lost, timed_out, due}
           lost, timed_out: ids of runs that are overdue; due: names of schedules
  Events   promotion, failed, cancelled, remove, error
]]

--- @include lib/start
--- @include lib/sound
--- @include lib/header
--- @include lib/tell
--- @include lib/live
--- @include lib/state
--- @include lib/unlink
--- @include lib/errors
--- @include lib/depart
--- @include lib/arrive
--- @include lib/dependants
--- @include lib/erase
--- @include lib/promote
--- @include lib/limits
--- @include lib/buckets

local limit, lease, gap = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local expired_tail, keep = ARGV[7], ARGV[8]
local minutes_kept, minutes_a_pass = tonumber(ARGV[9]), tonumber(ARGV[10])
local hours_kept, stacks_ms = tonumber(ARGV[11]), tonumber(ARGV[12])
local promoted, expired, pruned, more = 0, 0, 0, 0
local types = redis.call("SMEMBERS", root .. ":types")
local CLOCK_SLACK_MS = 2000
local MAX_PASSED_OVER = 5000
local MAX_ROUSED = 50
local MIN_QUIET_MS, MAX_QUIET_MS = 1500, 60000

-- Leases look over that are not when nobody tended for long: Redis was away, or everybody
-- was.  Live workers get half a lease to say so, once in ten such graces.  A clock that
-- was set back makes them look endless instead.
local function mind_the_clock()
  local meta = redis.call("HMGET", root .. ":meta", "swept", "graced", "idle")
  local swept, graced = tonumber(meta[1]) or now, tonumber(meta[2]) or -math.huge
  local stepped_back = now < swept - CLOCK_SLACK_MS
  local deadline
  if stepped_back then
    deadline = now + lease
    redis.call("HDEL", root .. ":meta", "graced")
  elseif now - swept > gap and now - graced > 5 * lease and not meta[3] then
    deadline = now + math.floor(lease / 2)
    redis.call("HSET", root .. ":meta", "graced", now)
  end
  redis.call("HSET", root .. ":meta", "swept", now)
  -- Nobody tended because there was nothing to tend: no lease was at stake.
  if meta[3] then
    redis.call("HDEL", root .. ":meta", "idle")
  end
  -- Below 0 are those who left: they need no grace.
  local workers = deadline
    and redis.call("ZRANGEBYSCORE", root .. ":workers", 0, "+inf") or {}
  for _, worker in ipairs(workers) do
    redis.call("ZADD", root .. ":workers", stepped_back and "XX" or "GT", deadline, worker)
  end
end

-- Runs of workers whose lease is over; a worker without any is forgotten.
local function lost_runs()
  local dead = redis.call("ZRANGEBYSCORE", root .. ":workers", "-inf", now, "LIMIT", 0, 100)
  if #dead == 0 then
    return {}
  end
  local is_dead, has_runs, lost = {}, {}, {}
  for _, worker in ipairs(dead) do
    is_dead[worker] = true
  end
  for _, job_type in ipairs(types) do
    local runs = redis.call("HGETALL", queue(job_type) .. "active")
    for i = 1, #runs, 2 do
      local worker = string.match(runs[i + 1], "^%d+:%d+:%d+:([^:]*):")
      if is_dead[worker] then
        has_runs[worker] = true
        lost[#lost + 1] = runs[i]
      end
    end
  end
  for _, worker in ipairs(dead) do
    if not has_runs[worker] then
      redis.call("ZREM", root .. ":workers", worker)
      redis.call("HDEL", root .. ":info", worker)
      redis.call("HDEL", root .. ":orders", worker)
      redis.call("HDEL", root .. ":stacks", worker, worker .. ":at")
    end
  end
  return lost
end

local function expire(job_type, q)
  local due = redis.call("ZRANGEBYSCORE", q .. "expires", "-inf", now, "LIMIT", 0,
    limit - expired)
  for _, id in ipairs(due) do
    local head = header(id)
    local place = head and place_of(id, q)
    if place and place ~= "active" and place ~= "parked" and not FINAL[place] then
      depart(id, q, place, head)
      arrive_final(id, q, head, "failed", expired_tail)
      tell("failed", id, job_type, 0, "{" .. expired_tail)
      tell_dependants(id, "failed")
      expired = expired + 1
    else
      redis.call("ZREM", q .. "expires", id)
    end
  end
end

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

-- Small records that are over.  Damage there must not keep jobs waiting.
local function sweep_kept()
  local over = redis.pcall("ZRANGEBYSCORE", root .. ":fading", "-inf", now, "LIMIT", 0, limit)
  if not over.err and #over > 0
    and type(redis.pcall("HDEL", root .. ":kept", unpack(over))) == "number" then
    redis.call("ZREM", root .. ":fading", unpack(over))
  end
end

-- Unique keys that were to outlast their job have.
local function lapse(q)
  for _, key in ipairs(redis.call("ZRANGEBYSCORE", q .. "lapse", "-inf", now,
    "LIMIT", 0, limit)) do
    local held = redis.call("HGET", q .. "unique", key)
    local id, till = string.match(held or "", "^(%d+):(%d+)$")
    local place = id and place_of(id, q)
    if id and tonumber(till) <= now and (not place or FINAL[place]) then
      redis.call("HDEL", q .. "unique", key)
    end
    redis.call("ZREM", q .. "lapse", key)
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

-- Let jobs back in line that no limit holds any more, and wake a worker where there is
-- something to do: a wake-up may have gone down with the one who got it.
local function rouse(job_type, q, limits)
  local per_key = limits and limits.per_key
  local held = redis.call("ZRANGE", q .. "held", 0, (per_key and MAX_ROUSED or limit) - 1)
  for _, id in ipairs(held) do
    local head = header(id)
    local running = head and head.group
      and tonumber(redis.call("HGET", q .. "running", head.group) or 0)
    if running and (not per_key or running < per_key) then
      let_back(q, head.group)
    end
  end
  if redis.call("ZCARD", q .. "waiting") == 0 then
    return
  end
  local is_full = limits and limits.concurrency
    and redis.call("HLEN", q .. "active") >= limits.concurrency
  if not is_full and not (limits and limits.rate and rate_left(q, limits) < 1) then
    wake(q)
  end
end

-- Go on with dependants that were too many for one call.  The outbox may be long: some of
-- it at random are enough, because none can starve that way.  Returns whether it has more.
local function release_rest()
  local entries = redis.call("HLEN", root .. ":outbox")
  local rest = entries > 0
    and redis.call("HRANDFIELD", root .. ":outbox", MAX_DEPENDANTS, "WITHVALUES") or {}
  for i = 1, #rest, 2 do
    local parent = string.match(rest[i], "^rest:(%d+)$")
    if parent and looked_at < MAX_DEPENDANTS then
      tell_dependants(parent, rest[i + 1])
    end
  end
  return looked_at >= MAX_DEPENDANTS or entries > MAX_DEPENDANTS
end

local function hour_of(minute)
  return root .. ":hours:" .. math.floor(minute / 60)
end

-- Full minutes of the statistics that are to be added to their hours now, and the last
-- minute that is then done with, if there is another.
local function unrolled()
  local full = math.floor(now / 60000) - 1
  local rolled = tonumber(redis.call("HGET", root .. ":meta", "rolled")) or 0
  local found = {}
  for minute = math.max(rolled + 1, full - minutes_kept), full do
    if redis.call("HLEN", root .. ":stats:" .. minute) > 0 then
      if #found == minutes_a_pass then
        return found, minute - 1
      end
      redis.call("HLEN", hour_of(minute))
      found[#found + 1] = minute
    end
  end
  return found, full > rolled and full or nil
end

-- Each once: whoever comes next begins behind the last.
local function roll_up(minutes, last)
  for _, minute in ipairs(minutes) do
    local fields, hour = redis.call("HGETALL", root .. ":stats:" .. minute), hour_of(minute)
    for i = 1, #fields, 2 do
      local field, value = fields[i], fields[i + 1]
      if string.find(value, "=", 1, true) then
        add_buckets(hour, field, value)
      else
        local known = tonumber(redis.call("HGET", hour, field) or 0) or 0
        local sum = known + (tonumber(value) or 0)
        redis.call("HSET", hour, field, string.format("%.0f", sum))
      end
    end
    redis.call("EXPIRE", hour, hours_kept * 3600)
  end
  if last then
    redis.call("HSET", root .. ":meta", "rolled", last)
  end
end

local function forget_stacks()
  for _, field in ipairs(redis.call("HKEYS", root .. ":stacks")) do
    local worker = string.match(field, "^(.*):at$")
    if worker and now - redis.call("HGET", root .. ":stacks", field) >= stacks_ms then
      redis.call("HDEL", root .. ":stacks", worker, field)
    end
  end
end

-- When something of the type will be due; nil if it needs tending now.
local function due_of(q, rules)
  if redis.call("ZCARD", q .. "waiting") + redis.call("HLEN", q .. "active")
    + redis.call("ZCARD", q .. "held") > 0 then
    return nil
  end
  local first = math.huge
  local function look(name, after)
    local head = redis.call("ZRANGE", q .. name, 0, 0, "WITHSCORES")
    first = math.min(first, (tonumber(head[2]) or math.huge) + after)
  end
  for _, name in ipairs({ "delayed", "expires", "retain", "lapse" }) do
    look(name, 0)
  end
  for i, state in ipairs({ "complete", "failed", "cancelled" }) do
    if rules[2 * i] then
      look(state, rules[2 * i])
    end
  end
  return first
end

-- Leave word that upkeep may rest, if it may.
local function rest(rules, pauses)
  local first = now + MAX_QUIET_MS
  for _, job_type in ipairs(types) do
    local due = due_of(queue(job_type), rules)
    if not due then
      return
    end
    first = math.min(first, due)
  end
  for i = 2, #pauses, 2 do
    local _, till = is_paused(pauses[i])
    first = math.min(first, till or math.huge)
  end
  local fires = redis.call("ZRANGE", root .. ":due", 0, 0, "WITHSCORES")
  first = math.min(first, tonumber(fires[2]) or math.huge)
  if first - now >= MIN_QUIET_MS and redis.call("HLEN", root .. ":outbox") == 0 then
    redis.call("SET", root .. ":quiet", "", "PX", first - now)
    redis.call("HSET", root .. ":meta", "idle", now)
  end
end

check_shard()
for _, job_type in ipairs(types) do
  check_type(job_type)
end
local full_minutes, last_minute = unrolled()
mind_the_clock()
roll_up(full_minutes, last_minute)
forget_stacks()
local lost, timed_out = lost_runs(), {}
local rules = {}
for value in string.gmatch(keep, "[^,]+") do
  rules[#rules + 1] = tonumber(value) or false
end
local pauses = redis.call("HGETALL", root .. ":paused")
for i = 1, #pauses, 2 do
  if not is_paused(pauses[i + 1]) then
    redis.call("HDEL", root .. ":paused", pauses[i])
  end
end
local all_paused = redis.call("HEXISTS", root .. ":paused", "") == 1
-- Of all types, before any is pruned: what waited for a pruned job may have expired.
for _, job_type in ipairs(types) do
  local q = queue(job_type)
  promoted = promoted + promote(job_type, q, math.max(0, limit - promoted))
  expire(job_type, q)
end
for _, job_type in ipairs(types) do
  local q = queue(job_type)
  local late = redis.call("ZRANGEBYSCORE", q .. "ttl", "-inf", now, "LIMIT", 0, limit)
  for _, id in ipairs(late) do
    timed_out[#timed_out + 1] = id
  end
  if keep ~= "" then
    prune_rule(job_type, q, "complete", rules[1], rules[2])
    prune_rule(job_type, q, "failed", rules[3], rules[4])
    prune_rule(job_type, q, "cancelled", rules[5], rules[6])
  end
  prune_retained(job_type, q)
  lapse(q)
  if not all_paused and redis.call("HEXISTS", root .. ":paused", job_type) == 0 then
    rouse(job_type, q, read_limits(redis.call("HGET", root .. ":limits", job_type)))
  end
end
sweep_kept()
local in_this_call = released
local has_more_dependants = release_rest()
-- Listeners live by the server's clock, also while a test owns the jobs'.
local alive = ARGV[1] == "" and now or redis.call("TIME")[1] * 1000
redis.call("ZREMRANGEBYSCORE", root .. ":listeners", "-inf", alive)
redis.call("ZREMRANGEBYSCORE", root .. ":watched", "-inf", alive)
if promoted >= limit or expired >= limit or pruned >= limit
  or has_more_dependants or #lost > limit or #timed_out > limit then
  more = 1
end
for _, ids in ipairs({ lost, timed_out }) do
  while #ids > limit do
    ids[#ids] = nil
  end
end
local due = redis.call("ZRANGEBYSCORE", root .. ":due", "-inf", now, "LIMIT", 0, limit)
-- A test that owns the clock owns the passes too.
if ARGV[1] == "" and more == 0 and #lost + #timed_out + #due == 0 then
  rest(rules, pauses)
end
publish()
return { promoted, expired, pruned, released - in_this_call, more, lost, timed_out, due }
