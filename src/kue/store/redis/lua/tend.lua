#!lua flags=allow-oom
--[[
  tend: one bounded pass of maintenance over a shard: promotion, expiry, lost workers,
  retention, dependants, schedules, statistics.

  Any number of processes may run it: each job is moved by exactly one.  Where a job needs a
  decision (its worker was lost, its ttl passed), it is only reported; the caller decodes
  it, decides, and ends the run with `cycle`, which checks again that it is overdue.

  `:agenda` has the time of the next look at each type, and at SHARD for what belongs to no
  type.  A script that makes work for maintenance enters it (request_maintenance, in
  lib/prelude).  A pass looks at what is due, and enters the next look at each: soon while
  it has waiting or running jobs, else at the first time when something is due.  While
  nothing is due, a pass returns at once: so there is about one pass a second, and none
  over an idle shard, however many workers there are.

  A pass looks at MAX_TYPES types at most.  Of each kind it moves or reports `limit` jobs
  at most, of all types together; beyond that it looks at RUNS_PER_PASS runs (lib/lost_runs),
  MAX_PASSED_OVER ended jobs with their own retention (lib/prune),
  FIELDS_PER_PASS counters (lib/roll_up_stats), MAX_DEPENDANTS dependants (lib/dependants) and
  MAX_SWEPT entries of each structure that is cleaned up.  After an outage, or when the
  clock was set back, the leases of all workers are extended, MAX_WORKERS at most.  With
  a clock given by the caller, all types are looked at.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now      Unix ms, or empty for the server's clock
    2  shards   how many there are
    3  shard    which one this is
    4  limit    jobs to move or report at most, of each kind
    5  lease    ms, for leases that are extended
    6  gap      ms without maintenance after which leases get a grace period
    7  tail     ends of the history line of an expired job, see lib/failures
    8  keep     complete_count,complete_age,failed_count,failed_age,
                cancelled_count,cancelled_age; "-" for no limit; empty to prune nothing
    9  minutes  of statistics to keep, and
    10          how many with counters to add to their hours at most
    11 hours    of statistics to keep
    12 stacks   ms to keep the stack traces of a worker

  Returns  {now}, if nothing is due; else
           {now, promoted, expired, pruned, released, more, lost, timed_out, due, failures,
           damage}
           lost, timed_out: ids of overdue runs; due: names of schedules;
           failures: how many are to be reported;
           damage: why a type was skipped, if one was
  Events   promotion, failed, cancelled, remove, error
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/flow
--- @include lib/unique_key
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
--- @include lib/failures
--- @include lib/enter_state
--- @include lib/dependants
--- @include lib/erase
--- @include lib/promote
--- @include lib/limits
--- @include lib/histogram

local limit, lease, gap = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local expired_tail, keep = ARGV[7], ARGV[8]
local hours_kept, stacks_ms = tonumber(ARGV[11]), tonumber(ARGV[12])
local promoted, expired, pruned, lapsed, held_checked = 0, 0, 0, 0, 0
local timed_out = {}
local agenda, is_shard_due = root .. ":agenda", false
local is_clock_owned = ARGV[1] ~= ""
local CLOCK_SLACK_MS = 2000
local MAX_TYPES, MAX_SWEPT, MAX_WORKERS = 100, 200, 20000
local MAX_HELD_CHECKED, MAX_LIMITED_CHECKED = 50, 5
-- The longest time between two looks at an idle type, and at an idle shard.
local MAX_REST_MS, MAX_SHARD_REST_MS = 600000, 60000
local MIN_QUIET_MS = 1500
-- How long a job waits for the end of the call that adds the jobs which come before it.
local MAX_HOLD_MS = 3600000

--- @include lib/lost_runs
--- @include lib/roll_up_stats
--- @include lib/prune
--- @include lib/maintenance_agenda

local function first_due()
  return tonumber(redis.call("ZRANGE", agenda, 0, 0, "WITHSCORES")[2])
end

-- After a long time without maintenance (Redis or all workers were away) live leases look
-- expired.  Workers then get half a lease to renew them, at most once in five leases.
-- After the clock was set back leases look endless instead, and are set to a full one.
local function extend_leases(swept, stepped_back, first)
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
  -- While nothing was due there was no maintenance because none was needed: no lease was
  -- at risk.
  if was_idle then
    redis.call("HDEL", root .. ":meta", "idle")
  end
  -- Below 0 are workers that left: they need no grace period.
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
      local line = failures.expired_line(id, q, expired_tail)
      arrive_final(id, q, head, "failed", line)
      emit("failed", id, job_type, 0, "{" .. line)
      dependants.notify(id, "failed")
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

-- Delete expired small records.  Damage there must not stop maintenance of jobs.
local function sweep_kept()
  local over = redis.pcall("ZRANGEBYSCORE", root .. ":fading", "-inf", now, "LIMIT", 0,
    MAX_SWEPT)
  if not over.err and #over > 0
    and type(redis.pcall("HDEL", root .. ":kept", unpack(over))) == "number" then
    redis.call("ZREM", root .. ":fading", unpack(over))
  end
end

-- Free unique keys that were held for as long as they should.
local function lapse(q)
  for _, key in ipairs(redis.call("ZRANGEBYSCORE", q .. "lapse", "-inf", now,
    "LIMIT", 0, limit - lapsed)) do
    if read_holder(redis.call("HGET", q .. "unique", key)) and not holder_of(q, key) then
      redis.call("HDEL", q .. "unique", key)
    end
    redis.call("ZREM", q .. "lapse", key)
    lapsed = lapsed + 1
  end
end

-- Look at some held jobs, random ones, so that none can starve behind others that stay held:
-- requeue those that no limit keeps from starting.  Returns whether a group holds any.
local function check_held(q, per_key, most)
  local is_of_group = false
  for _, id in ipairs(most > 0 and redis.call("ZRANDMEMBER", q .. "held", most) or {}) do
    held_checked = held_checked + 1
    local head = header(id)
    local running = head and head.group
      and tonumber(redis.call("HGET", q .. "running", head.group) or 0)
    if running and (not per_key or running < per_key) then
      release_held(q, head.group)
      is_of_group = true
    end
    if head and head.limits then
      named.release_each(head)
    end
  end
  return is_of_group
end

-- Requeue held jobs that no limit applies to any more, and wake a worker if there is work:
-- an earlier wake-up may be lost with the worker that got it.
local function release_and_wake(job_type, q, limits)
  local per_key = limits and limits.per_key
  local left = limit - held_checked
  -- The type comes first in the next pass.  With a given clock, passes would never end.
  if left <= 0 and not is_clock_owned and redis.call("ZCARD", q .. "held") > 0 then
    is_cut_short = true
  end
  -- Named limits release their jobs themselves; few are enough to find one that did not.
  local is_of_group = check_held(q, per_key,
    math.min(per_key and MAX_HELD_CHECKED or MAX_LIMITED_CHECKED, left))
  if is_of_group and not per_key then
    check_held(q, per_key, limit - held_checked)
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

-- Continue with dependants that were too many for one call.  The outbox may be long: random
-- entries are enough, because none can starve that way.  Returns whether it has more.
local function release_rest()
  local entries = redis.call("HLEN", root .. ":outbox")
  local rest = entries > 0
    and redis.call("HRANDFIELD", root .. ":outbox", MAX_DEPENDANTS, "WITHVALUES") or {}
  for i = 1, #rest, 2 do
    local parent = string.match(rest[i], "^rest:(%d+)$")
    if parent and redis.call("SISMEMBER", root .. ":parents", parent) == 0 then
      -- All its dependants have been removed since.
      redis.call("HDEL", root .. ":outbox", rest[i])
    elseif parent and looked_at < MAX_DEPENDANTS then
      dependants.notify(parent, rest[i + 1])
    end
    local former = string.match(rest[i], "^left:(%d+)$")
    local held = string.match(rest[i], "^hold:(%d+)$")
    if former and looked_at < MAX_DEPENDANTS then
      looked_at = looked_at + links.forget_some(former, MAX_DEPENDANTS - looked_at)
    elseif held and now - (tonumber(rest[i + 1]) or 0) >= MAX_HOLD_MS then
      -- The call that was to end it was given up.
      dependants.notify_one(held, held, "complete")
      redis.call("HDEL", root .. ":outbox", rest[i])
    end
  end
  return looked_at >= MAX_DEPENDANTS or entries > MAX_DEPENDANTS
end

-- Random fields, because HRANDFIELD reads names only: stack traces are long.
local function forget_stacks()
  for _, field in ipairs(redis.call("HRANDFIELD", root .. ":stacks", MAX_SWEPT)) do
    local worker = string.match(field, "^(.*):at$")
    if worker and now - (tonumber(redis.call("HGET", root .. ":stacks", field)) or 0)
      >= stacks_ms then
      redis.call("HDEL", root .. ":stacks", worker, field)
    end
  end
end

-- Delete pauses that have ended, some per pass; they have no effect any more.
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
  -- Subscriptions expire by the server's clock, also when a test gives the time for jobs.
  local alive = is_clock_owned and redis.call("TIME")[1] * 1000 or now
  local over = redis.call("ZRANGEBYSCORE", root .. name, "-inf", alive, "LIMIT", 0, 1000)
  if #over > 0 then
    redis.call("ZREM", root .. name, unpack(over))
  end
end

-- Return when what belongs to no type needs its next look.
local function next_shard_look(has_more)
  if has_more then
    return now
  elseif redis.call("HLEN", root .. ":outbox") > 0
    or redis.call("EXISTS", root .. ":failures") == 1 then
    return now + LOOK_MS
  end
  local fires = redis.call("ZRANGE", root .. ":due", 0, 0, "WITHSCORES")
  local first = math.min(tonumber(fires[2]) or math.huge, now + MAX_SHARD_REST_MS)
  return math.max(first, now + LOOK_MS)
end

-- A look that was not due is not postponed: busy types would postpone it forever.
local function enter_shard_look(has_more)
  local at = next_shard_look(has_more)
  if is_shard_due then
    redis.call("ZADD", agenda, at, SHARD)
  else
    redis.call("ZADD", agenda, "LT", at, SHARD)
  end
end

-- Return the types whose structures are intact, the damaged ones, and the error of one of
-- those: damage of one type must not stop maintenance of the others.
local function check_types(types)
  local intact, damaged, damage = {}, {}, nil
  for _, entry in ipairs(types) do
    local is_intact, problem = pcall(check_type, entry.type)
    if is_intact then
      intact[#intact + 1] = entry
    else
      damaged[#damaged + 1] = entry
      problem = type(problem) == "table" and problem.err or tostring(problem)
      damage = problem .. " (in type " .. entry.type .. ")"
    end
  end
  return intact, damaged, damage
end

local first, swept = first_due(), tonumber(redis.call("HGET", root .. ":meta", "swept"))
local stepped_back = now < (swept or now) - CLOCK_SLACK_MS
if not is_clock_owned and not stepped_back and first and first > now then
  return { now }
end

-- Check.
check_shard()
if stepped_back then
  -- The entered times mean nothing any more: treat all as due.
  redis.call("ZUNIONSTORE", agenda, 1, agenda, "WEIGHTS", 0)
end
local types, due_types
types, due_types, is_shard_due = types_due()
local damaged, damage
types, damaged, damage = check_types(types)
local full_minutes, last_minute, minute_cursor =
  unrolled(tonumber(ARGV[9]), tonumber(ARGV[10]))

-- Move.
for _, entry in ipairs(damaged) do
  -- Otherwise it would be the first in every pass.
  redis.call("ZADD", agenda, now + LOOK_MS, entry.type)
end
extend_leases(swept or now, stepped_back, first)
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
-- For all types, before any is pruned: what waited for a pruned job may have expired.
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
    local limits = read_limits(redis.call("HGET", root .. ":limits", job_type))
    release_and_wake(job_type, q, limits)
  end
  entry.searched_since = runs_searched < RUNS_PER_PASS and search(job_type, q)
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
-- With a given clock, all types were looked at.
local searched, all_done = math.huge, true
for _, entry in ipairs(types) do
  searched = math.min(searched, entry.searched_since or 0)
  if entry.is_done then
    enter_next_look(entry, rules, is_limited)
  else
    -- It keeps its time, and so is among the first of the next pass.
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
  lost, timed_out, due, redis.call("ZCARD", root .. ":failures"), damage }
