#!lua
--[[
  add: store new jobs as waiting, delayed, blocked or cancelled.

  The one script that a full Redis refuses: it has no allow-oom flag, so new jobs are
  rejected and existing ones go on.  It is idempotent: repeating a call (same producer, same
  seq) returns the first reply and adds nothing.  Replies are kept for at least an hour.

  Touches at most 500 drafts and about 1 MiB of them, where each job that they wait for
  counts as 2 KiB: the caller adds more in several calls.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now       Unix ms, or empty for the server's clock
    2  shards    how many there are
    3  shard     which one this is
    4  producer  name of the producer
    5  seq       number of the call, which grows with each call of the producer
    6  fired     how many schedules this call fires, each with one draft
    then for each of them, in the order of the drafts:
       name                  of the schedule
       old                   the schedule as the caller read it, JSON
       new                   the same afterwards, up to the id of the job, which ends its
                             last tick; empty to delete it
       next_at               when it fires next, Unix ms; empty for never
    then groups of drafts with the same header:
       left, type, options   header before and after the creation time
       form                  "plain": ready now; "full": anything else
       count                 drafts in the group
       body                  count times, for plain
       body, delay, at, unique, unique_for, at_most, replaces, expires, ties
                             count times, for full; replaces is empty, or how long a job
                             that is replaced may wait, 0 for as long as it is replaced;
                             ties are empty, or "parents;before;flow;id;target":
                               parents  "id,id,…", after "=" if the header is to have them
                               before   blocked jobs that shall wait for this one, with "~"
                                        where it is a reference: that is never refused,
                                        and of a job that is not blocked means nothing
                               flow     of the job, then "!" if it has no index
                               id       that was reserved for it, if one was
                               target   1 if a draft of this call comes before it, 2 if
                                        one of another call does: it then waits for
                                        itself, until the caller ends that
                             where -k is the k-th draft of this call, an earlier one
       or instead of a group, after its form "refuse": what was found wrong with the call

  Returns  {"OK", answer} | {"STALE"} | {"LATE", name, …}: nothing was done, because
           another caller has changed these schedules | {"REFUSED", id, why}: nothing was
           done; why is "unknown" for a parent that there never was, "gone" for a job in
           `before` that does not exist, its state, if it is not blocked, or "unreserved"
           for an id that is not free
           answer: when they were created, a space, "first-last" or ids; the holder of
           a draft's unique key is "!id@created", or "~id@created" if it was replaced;
           "#" for a draft that the cap of its type refuses.  After it the types that
           have more waiting jobs than their caps allow, for `drop_oldest`
  Events   enqueue, update; promotion, cancelled for a job that none comes before after all
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_numbers
--- @include lib/job_place
--- @include lib/unique_key
--- @include lib/rank

local producer, seq = ARGV[4], tonumber(ARGV[5])
local BUCKET_MS = 3600000
local bucket = math.floor(now / BUCKET_MS)
local producers = root .. ":producers:" .. bucket

local function remember(answered)
  if redis.call("HSET", producers, producer, answered) == 1 then
    redis.call("EXPIRE", producers, 3 * BUCKET_MS / 1000)
  end
end

-- Check.  Only what is written below without being read before.
local minute = root .. ":stats:" .. math.floor(now / 60000)
redis.call("HLEN", minute)
redis.call("SCARD", root .. ":types")
local last = redis.call("HGET", producers, producer)
  or redis.call("HGET", root .. ":producers:" .. (bucket - 1), producer)
if last then
  local last_seq, answer = string.match(last, "^(%d+):(.*)$")
  if tonumber(last_seq) == seq then
    -- Written again, so that WAIT after a repeated call counts replicas that have it.
    remember(last)
    return { "OK", answer }
  elseif tonumber(last_seq) > seq then
    return { "STALE" }
  end
end

local fired = tonumber(ARGV[6])
-- Where the arguments of a schedule begin.
local function of_schedule(number)
  return 3 + 4 * number
end

local late = { "LATE" }
for number = 1, fired do
  local name, old = unpack(ARGV, of_schedule(number), of_schedule(number) + 1)
  if redis.call("HGET", root .. ":schedules", name) ~= old then
    late[#late + 1] = name
  end
end
if #late > 1 then
  return late
end

local next_seq = last_number()
if not next_seq then
  return damaged_number()
end
local first_seq = next_seq + 1
local records, answer, is_range = {}, {}, true
-- One plan per type: what to add to its structures.
local plans, plan_of = {}, {}
-- For events, in the order given; a job cannot be watched before it exists.
local new_jobs, ended_targets = {}, {}
-- unique key → id of the job of this call that took it; id, as text → its entry
local taken, entry_of = {}, {}
-- flow → its new members; why the whole call is refused; numbers that were reserved
local joined, refusal, reserved = {}, nil, {}

local function waiting_in(q)
  return redis.call("ZCARD", q .. "waiting") + redis.call("ZCARD", q .. "held")
end

local function plan_for(job_type)
  local plan = plan_of[job_type]
  if not plan then
    local q = queue(job_type)
    redis.call("ZINTERCARD", 6, root .. ":nothing", q .. "waiting", q .. "wake",
      q .. "held", q .. "fair", root .. ":agenda")
    local limits = redis.call("HGET", root .. ":limits", job_type)
    local rule = limits and ranks.read_rule(limits)
    plan = { type = job_type, q = q, added = 0, rule = rule, batch = {},
      room = rule and rule.cap and rule.cap - waiting_in(q),
      waiting = {}, delayed = {}, expires = {}, unique = {}, lapse = {}, special = {} }
    plan_of[job_type] = plan
    plans[#plans + 1] = plan
  end
  return plan
end

-- Drafts in the full form, which most calls have none of.
local full = on_demand(function(full)
--- @include lib/parents
  local replacing = on_demand(function(replacing)
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/replace_job
    replacing.entry, replacing.record = stored_entry, replaced_record
    replacing.take_out = take_out
  end)
--- @include lib/new_ties
--- @include lib/full_drafts
  full.draft, full.enter, full.replacing = draft_full, enter, replacing
  full.write_ties, full.write_flow, full.notify_later = write_ties, write_flow, notify_later
end)

local at, adds_quiet = of_schedule(fired + 1), false
while ARGV[at] do
  local left, job_type, options, form, count = unpack(ARGV, at, at + 4)
  if form == "refuse" then
    return { "REFUSED", left, options }
  end
  adds_quiet = adds_quiet or string.find(options, "\tquiet=1", 1, true)
  local plan = plan_for(job_type)
  at = at + 5
  if form == "plain" and plan.rule then
    for _ = 1, count do
      full.draft(plan, left, options, ARGV[at], 0, "", "", "0", "0", "", "0", "")
      at = at + 1
    end
  elseif form == "plain" then
    local waiting = plan.waiting
    local base = tonumber(left) * 2199023255552
    local is_seq = base == 0 and shards == 1
    local before = left .. "\t" .. now .. "\t" .. job_type .. options .. "\n"
    local n, w, a = #records, #waiting, #answer
    for i = 1, count do
      next_seq = next_seq + 1
      -- Formatting numbers is the cost of this loop: each is formatted once.
      local id = string.format(WHOLE, next_seq * shards + shard)
      records[n + 1], records[n + 2] = job .. id, before .. ARGV[at]
      waiting[w + 1], waiting[w + 2] = is_seq and id or base + next_seq, id
      answer[a + i] = id
      if has_listeners then
        new_jobs[#new_jobs + 1] = { id = id, type = job_type, state = "waiting" }
      end
      n, w, at = n + 2, w + 2, at + 1
    end
    plan.added = plan.added + count
  else
    if not plan.is_checked then
      check_zsets(plan.q, TYPE_ZSETS)
      plan.is_checked = true
    end
    for _ = 1, count do
      full.draft(plan, left, options, unpack(ARGV, at, at + 8))
      at = at + 9
    end
  end
end

-- A schedule fires in any case: an unknown parent counts as removed.
if refusal and fired == 0 then
  return refusal
end
for _, plan in ipairs(plans) do
  for _, entry in ipairs(plan.special) do
    full.enter(plan, entry)
  end
end
if next_seq >= first_seq then
  check_live(first_seq, next_seq)
end
for seq in pairs(reserved) do
  check_live(seq, seq)
end
if fired > 0 then
  redis.call("ZCARD", root .. ":due")
end

-- Move.
for number = 1, fired do
  local name, _, new, next_at = unpack(ARGV, of_schedule(number), of_schedule(number) + 3)
  if new == "" then
    redis.call("HDEL", root .. ":schedules", name)
  else
    -- 0 if another job holds the unique key, -2 if the cap of the type refuses it.
    local id = string.match(answer[number], "^~?(%d+)") or answer[number] == "#" and -2
      or 0
    redis.call("HSET", root .. ":schedules", name, new .. id .. "]]}")
  end
  if next_at == "" then
    redis.call("ZREM", root .. ":due", name)
  else
    redis.call("ZADD", root .. ":due", next_at, name)
  end
end
if next_seq >= first_seq then
  take_numbers(first_seq - 1, next_seq)
  mark_live(first_seq, next_seq)
end
for seq in pairs(reserved) do
  set_live(seq, 1)
end
if #records > 0 then
  redis.call("MSET", unpack(records))
end
for _, plan in ipairs(plans) do
  local q = plan.q
  redis.call("SADD", root .. ":types", plan.type)
  request_maintenance(plan.type)
  for _, entry in ipairs(plan.special) do
    if entry.old then
      full.replacing.take_out(q, entry)
    end
  end
  if #plan.waiting > 0 then
    redis.call("ZADD", q .. "waiting", unpack(plan.waiting))
    wake(q)
  end
  if plan.batch.turns then
    ranks.write(plan.batch)
  end
  if #plan.delayed > 0 then
    redis.call("ZADD", q .. "delayed", unpack(plan.delayed))
    wake(q)
  end
  if #plan.expires > 0 then
    redis.call("ZADD", q .. "expires", unpack(plan.expires))
  end
  if #plan.unique > 0 then
    redis.call("HSET", q .. "unique", unpack(plan.unique))
  end
  if #plan.lapse > 0 then
    redis.call("ZADD", q .. "lapse", unpack(plan.lapse))
  end
  for _, entry in ipairs(plan.special) do
    local id = entry.id
    if entry.state == "blocked" then
      redis.call("ZADD", q .. "blocked", id, id)
    elseif entry.state == "cancelled" then
      redis.call("ZADD", q .. "cancelled", now, id)
      if entry.retention then
        redis.call("ZADD", q .. "retain_cancelled", now + entry.retention, id)
      end
      redis.call("APPEND", job .. id, '\n{"run":"","at":' .. now
        .. ',"outcome":"cancelled","reason":"' .. entry.lost .. '"}')
    end
  end
  if plan.added > 0 then
    local added = add_up(minute, plan.type .. ":added", plan.added)
    if added == plan.added then
      redis.call("EXPIRE", minute, 90000)
    end
  end
end
for _, entry in pairs(entry_of) do
  full.write_ties(entry)
end
for _, entry in pairs(entry_of) do
  if entry.state == "cancelled" then
    full.notify_later(entry)
  end
end
for flow, members in pairs(joined) do
  full.write_flow(flow, members)
end
if is_range and #answer > 1 and shards == 1 then
  answer = now .. " " .. answer[1] .. "-" .. answer[#answer]
else
  answer = now .. " " .. table.concat(answer, ",")
end
remember(seq .. ":" .. answer)
if adds_quiet then
  redis.call("HSET", root .. ":meta", "quiet", 1)
  has_quiet = true
end

-- Publish.
for _, one in ipairs(new_jobs) do
  local detail = '{"state":"' .. one.state .. '"'
  if one.is_replaced then
    emit("update", one.id, one.type, 0, detail .. ',"replaced":true}')
  else
    emit("enqueue", one.id, one.type, 0, detail .. "}")
  end
end
for _, entry in ipairs(ended_targets) do
  if entry.lost then
    emit("cancelled", entry.id, entry.type, 0, '{"reason":"' .. entry.lost .. '"}')
  else
    emit("promotion", entry.id, entry.type, 0)
  end
end
publish()
local reply = { "OK", answer }
for _, plan in ipairs(plans) do
  if plan.room and plan.rule.when_full == "drop-oldest"
    and waiting_in(plan.q) > plan.rule.cap then
    reply[#reply + 1] = plan.type
  end
end
return reply
