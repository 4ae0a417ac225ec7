#!lua flags=allow-oom
--[[
  tend: one bounded pass of maintenance over a shard.

  Any number of processes may run it: each job is moved by exactly one.  What needs a
  decision about a job (its worker was lost, its ttl passed) is only reported; the caller
  decodes it, decides, and ends the run with `cycle`, which checks again that it is due.

  `:agenda` says when maintenance is to look at what: at a type, or at SHARD for what
  belongs to no type.  A script that brings something to do enters it (stir, in
  lib/start).  A pass looks at what is due, and enters when each needs its next look: soon
  while jobs of it wait or run, else when the first of its times comes.  While nothing is
  due, a pass answers at once: so there is about one pass a second, and none of an idle
  shard, however many workers there are.

  A pass looks at MAX_TYPES types at most.  Of each kind it moves or reports `limit` jobs
  at most, of all types together; beyond that it looks at RUNS_A_PASS runs (lib/lost),
  MAX_PASSED_OVER ended jobs with their own retention (lib/prune),
  FIELDS_A_PASS counters (lib/minutes), MAX_DEPENDANTS dependants (lib/dependants) and
  MAX_SWEPT entries of each structure that is cleaned up.  After an outage, or when the
  clock was set back, the leases of all workers are prolonged, MAX_WORKERS at most.  A
  caller that owns the clock has all types looked at.

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

  Returns  {now}, if nothing is due; else
           {now, promoted, expired, pruned, released, more, lost, timed_out, due, damage}
           lost, timed_out: ids of runs that are overdue; due: names of schedules;
           damage: why a type was left out, if one was
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
local hours_kept, stacks_ms = tonumber(ARGV[11]), tonumber(ARGV[12])
local promoted, expired, pruned, lapsed, roused = 0, 0, 0, 0, 0
local timed_out = {}
local agenda, is_shard_due = root .. ":agenda", false
local is_clock_owned = ARGV[1] ~= ""
local CLOCK_SLACK_MS = 2000
local MAX_TYPES, MAX_SWEPT, MAX_ROUSED, MAX_WORKERS = 100, 200, 50, 20000
-- An idle type is looked at this often all the same, and an idle shard.
local MAX_REST_MS, MAX_SHARD_REST_MS = 600000, 60000
local MIN_QUIET_MS = 1500

--- @include lib/lost
--- @include lib/minutes
--- @include lib/prune
--- @include lib/types

local function first_due()
  return tonumber(redis.call("ZRANGE", agenda, 0, 0, "WITHSCORES")[2])
end

-- Leases look over that are not when nobody tended for long: Redis was away, or everybody
-- was.  Live workers get half a lease to say so, once in ten such graces.  A clock that
-- was set back makes them look endless instead.
local function mind_the_clock(swept, stepped_back, first)
  local meta = redis.call("HMGET", root .. ":meta", "graced", "idle")
  local graced, was_idle = tonumber(meta[1]) or -math.huge, meta[2]
  local is_overdue = first and now - first > gap
  local deadline
  if stepped_back then
    deadline = now + lease
    redis.call("HDEL", root .. ":meta", "graced")
  elseif now - swept > gap and now - graced > 5 * lease
    and (is_overdue or not was_idle) then
    deadline = now + math.floor(lease / 2)
    redis.call("HSET", root .. ":meta", "graced", now)
  end
  redis.call("HSET", root .. ":meta", "swept", now)
  -- While nothing was due nobody tended because there was nothing to tend: no lease was
  -- at stake.
  if was_idle then
    redis.call("HDEL", root .. ":meta", "idle")
  end
  -- Below 0 are those who left: they need no grace.
  local workers = deadline and redis.call("ZRANGEBYSCORE", root .. ":workers", 0, "+inf",
    "LIMIT", 0, MAX_WORKERS) or {}
  for _, worker in ipairs(workers) do
    redis.call("ZADD", root .. ":workers", stepped_back and "XX" or "GT", deadline, worker)
  end
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

local function report_timed_out(q)
  for _, id in ipairs(redis.call("ZRANGEBYSCORE", q .. "ttl", "-inf", now, "LIMIT", 0,
    limit - #timed_out)) do
    timed_out[#timed_out + 1] = id
  end
end

-- Small records that are over.  Damage there must not keep jobs waiting.
local function sweep_kept()
  local over = redis.pcall("ZRANGEBYSCORE", root .. ":fading", "-inf", now, "LIMIT", 0,
    MAX_SWEPT)
  if not over.err and #over > 0
    and type(redis.pcall("HDEL", root .. ":kept", unpack(over))) == "number" then
    redis.call("ZREM", root .. ":fading", unpack(over))
  end
end

-- Unique keys that were to outlast their job have.
local function lapse(q)
  for _, key in ipairs(redis.call("ZRANGEBYSCORE", q .. "lapse", "-inf", now,
    "LIMIT", 0, limit - lapsed)) do
    local held = redis.call("HGET", q .. "unique", key)
    local id, till = string.match(held or "", "^(%d+):(%d+)$")
    local place = id and place_of(id, q)
    if id and tonumber(till) <= now and (not place or FINAL[place]) then
      redis.call("HDEL", q .. "unique", key)
    end
    redis.call("ZREM", q .. "lapse", key)
    lapsed = lapsed + 1
  end
end

-- Let jobs back in line that no limit holds any more, and wake a worker where there is
-- something to do: a wake-up may have gone down with the one who got it.
local function rouse(job_type, q, limits)
  local per_key = limits and limits.per_key
  local most = math.min(per_key and MAX_ROUSED or limit, limit - roused)
  local held = most > 0 and redis.call("ZRANGE", q .. "held", 0, most - 1) or {}
  roused = roused + #held
  -- Its turn comes first in the next pass; who owns the clock would never come to an end.
  if most <= 0 and not is_clock_owned and redis.call("ZCARD", q .. "held") > 0 then
    is_cut_short = true
  end
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
    if parent and redis.call("SISMEMBER", root .. ":parents", parent) == 0 then
      -- All that waited for it were removed meanwhile.
      redis.call("HDEL", root .. ":outbox", rest[i])
    elseif parent and looked_at < MAX_DEPENDANTS then
      tell_dependants(parent, rest[i + 1])
    end
  end
  return looked_at >= MAX_DEPENDANTS or entries > MAX_DEPENDANTS
end

-- By chance, because only the names are read that way: stacks are long.
local function forget_stacks()
  for _, field in ipairs(redis.call("HRANDFIELD", root .. ":stacks", MAX_SWEPT)) do
    local worker = string.match(field, "^(.*):at$")
    if worker and now - (tonumber(redis.call("HGET", root .. ":stacks", field)) or 0)
      >= stacks_ms then
      redis.call("HDEL", root .. ":stacks", worker, field)
    end
  end
end

-- A pause that is over holds nothing back; this only tidies up, a part at a time.
local function forget_pauses()
  local cursor = cursor_of("pauses")
  local page = redis.call("HSCAN", root .. ":paused", cursor, "COUNT", MAX_SWEPT)
  for i = 1, #page[2], 2 do
    if not is_paused(page[2][i + 1]) then
      redis.call("HDEL", root .. ":paused", page[2][i])
    end
  end
  if page[1] ~= cursor then
    redis.call("HSET", root .. ":meta", "pauses", page[1])
  end
end

local function forget_listeners(name)
  -- Listeners live by the server's clock, also while a test owns the jobs'.
  local alive = is_clock_owned and redis.call("TIME")[1] * 1000 or now
  local over = redis.call("ZRANGEBYSCORE", root .. name, "-inf", alive, "LIMIT", 0, 1000)
  if #over > 0 then
    redis.call("ZREM", root .. name, unpack(over))
  end
end

-- When what belongs to no type needs its next look.
local function next_shard_look(has_more)
  if has_more then
    return now
  elseif redis.call("HLEN", root .. ":outbox") > 0 then
    return now + LOOK_MS
  end
  local fires = redis.call("ZRANGE", root .. ":due", 0, 0, "WITHSCORES")
  local first = math.min(tonumber(fires[2]) or math.huge, now + MAX_SHARD_REST_MS)
  return math.max(first, now + LOOK_MS)
end

-- A look that was not due keeps its time: or busy types would put it off forever.
local function enter_shard_look(has_more)
  local at = next_shard_look(has_more)
  if is_shard_due then
    redis.call("ZADD", agenda, at, SHARD)
  else
    redis.call("ZADD", agenda, "LT", at, SHARD)
  end
end

-- Return the types whose structures are what they must be, the others, and what is wrong
-- with one of those: it must not keep all others from being looked at.
local function sound_of(types)
  local sound, damaged, damage = {}, {}, nil
  for _, entry in ipairs(types) do
    local is_sound, problem = pcall(check_type, entry.type)
    if is_sound then
      sound[#sound + 1] = entry
    else
      damaged[#damaged + 1] = entry
      problem = type(problem) == "table" and problem.err or tostring(problem)
      damage = problem .. " (in type " .. entry.type .. ")"
    end
  end
  return sound, damaged, damage
end

local first, swept = first_due(), tonumber(redis.call("HGET", root .. ":meta", "swept"))
local stepped_back = now < (swept or now) - CLOCK_SLACK_MS
if not is_clock_owned and not stepped_back and first and first > now then
  return { now }
end

-- Check.
check_shard()
if stepped_back then
  -- What was entered for later is due for all we know.
  redis.call("ZUNIONSTORE", agenda, 1, agenda, "WEIGHTS", 0)
end
local types, due_types
types, due_types, is_shard_due = types_due()
local damaged, damage
types, damaged, damage = sound_of(types)
local full_minutes, last_minute, minute_cursor =
  unrolled(tonumber(ARGV[9]), tonumber(ARGV[10]))

-- Move.
for _, entry in ipairs(damaged) do
  -- Or it would be the first in every pass.
  redis.call("ZADD", agenda, now + LOOK_MS, entry.type)
end
mind_the_clock(swept or now, stepped_back, first)
local is_rolled = roll_up(full_minutes, last_minute, minute_cursor, hours_kept)
forget_stacks()
forget_pauses()
if is_shard_due then
  enter_types()
end
find_dead(swept or now)
local rules = {}
for value in string.gmatch(keep, "[^,]+") do
  rules[#rules + 1] = tonumber(value) or false
end
local all_paused = is_paused(redis.call("HGET", root .. ":paused", ""))
-- Of all types, before any is pruned: what waited for a pruned job may have expired.
for _, entry in ipairs(types) do
  promoted = promoted + promote(entry.type, entry.q, limit - promoted)
  expire(entry.type, entry.q)
end
for _, entry in ipairs(types) do
  local job_type, q = entry.type, entry.q
  is_cut_short = false
  report_timed_out(q)
  for i, state in ipairs({ "complete", "failed", "cancelled" }) do
    prune_rule(job_type, q, state, rules[2 * i - 1], rules[2 * i])
    prune_retained(job_type, q, state)
  end
  lapse(q)
  if not all_paused and not is_paused(redis.call("HGET", root .. ":paused", job_type)) then
    rouse(job_type, q, read_limits(redis.call("HGET", root .. ":limits", job_type)))
  end
  entry.searched_since = runs_searched < RUNS_A_PASS and search(job_type, q)
  entry.is_done = entry.searched_since and not is_cut_short
end
sweep_kept()
local in_this_call = released
local has_more_dependants = release_rest()
forget_listeners(":listeners")
forget_listeners(":watched")
local due = redis.call("ZRANGEBYSCORE", root .. ":due", "-inf", now, "LIMIT", 0, limit)

-- Enter the next looks.
local is_limited = promoted >= limit or expired >= limit or pruned >= limit
  or lapsed >= limit or #timed_out >= limit
-- A caller that owns the clock had all types looked at.
local searched, all_done = math.huge, true
for _, entry in ipairs(types) do
  searched = math.min(searched, entry.searched_since or 0)
  if entry.is_done then
    enter_next_look(entry, rules, is_limited)
  else
    -- It stays where it is, and so is the first of the next pass.
    all_done = false
  end
end
enter_shard_look(has_more_dependants or #due >= limit)
first = first_due()
if not damage then
  forget_dead(is_clock_owned and searched or first - LOOK_MS)
end
-- With very many busy types each is looked at less often.
local is_late = first <= now - math.max(0, due_types / 2 - LOOK_MS)
local more = is_limited or is_late or not all_done or not is_rolled
  or has_more_dependants
if not is_clock_owned and first - now >= MIN_QUIET_MS then
  redis.call("HSET", root .. ":meta", "idle", now)
end
publish()
return { now, promoted, expired, pruned, released - in_this_call, more and 1 or 0,
  lost, timed_out, due, damage }
