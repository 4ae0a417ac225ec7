#!lua
--[[
  add: store new jobs as waiting, delayed, blocked or cancelled.

  The one script that a full Redis refuses: it has no allow-oom flag, so new jobs are
  rejected and existing ones go on.  It is idempotent: repeating a call (same producer, same
  seq) returns the first reply and adds nothing.  Replies are kept for at least an hour.

  Touches at most 500 drafts and about 1 MiB of them, where each job that they wait for
  counts as 1 KiB: the caller adds more in several calls.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now       Unix ms, or empty for the server's clock
    2  shards    how many there are
    3  shard     which one this is
    4  producer  name of the producer
    5  seq       number of the call, which grows with each call of the producer
    6  name      of a schedule that this call fires with one draft, or empty
    7  old       that schedule as the caller read it, JSON
    8  new       the same afterwards, up to the id of the job, which ends its last tick;
                 empty to delete it
    9  next_at   when it fires next, Unix ms; empty for never
    then groups of drafts with the same header:
       left, type, options   header before and after the creation time
       form                  "plain": ready now; "full": anything else
       count                 drafts in the group
       body                  count times, for plain
       body, delay, at, unique, unique_for, expires, parents, any
                             count times, for full; parents are "id,id,…"

  Returns  {"OK", answer} | {"STALE"} | {"LATE"}: another caller has fired the schedule
           answer: when they were created, a space, "first-last" or ids; the holder of
           a draft's unique key is "!id@created"
  Events   enqueue
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place

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

local schedule, old, new, fires_at = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
if schedule ~= "" and redis.call("HGET", root .. ":schedules", schedule) ~= old then
  return { "LATE" }
end

-- Above what fits a score, adding 1 no longer changes a number: loops would not end.
local MAX_SEQ = 2199023255551 - 500
local next_seq = tonumber(redis.call("GET", root .. ":ids") or 0)
if not next_seq or not (next_seq >= 0 and next_seq <= MAX_SEQ and next_seq % 1 == 0) then
  return redis.error_reply("DAMAGED key " .. root .. ":ids is not the number of a job")
end
local first_seq = next_seq + 1
local records, answer, is_range = {}, {}, true
-- One plan per type: what to add to its structures.
local plans, plan_of = {}, {}
-- For events, in the order given; a job cannot be watched before it exists.
local new_jobs = {}
-- unique key → id of the job of this call that took it
local taken = {}

local function plan_for(job_type)
  local plan = plan_of[job_type]
  if not plan then
    local q = queue(job_type)
    redis.call("ZINTERCARD", 4, root .. ":nothing", q .. "waiting", q .. "wake",
      root .. ":agenda")
    plan = { type = job_type, q = queue(job_type), added = 0,
      waiting = {}, delayed = {}, expires = {}, unique = {}, special = {} }
    plan_of[job_type] = plan
    plans[#plans + 1] = plan
  end
  return plan
end

-- Return the job that holds a unique key of the type; nil if it is free.
local function holder(plan, key)
  if taken[plan.q .. key] then
    return taken[plan.q .. key]
  end
  local held = redis.call("HGET", plan.q .. "unique", key)
  if not held then
    return nil
  end
  local id, till = string.match(held, "^(%d+):(%d+)$")
  if not id then
    return nil
  end
  local place = place_of(id, plan.q)
  local is_open = place and place ~= "parked" and not FINAL[place]
  return (is_open or tonumber(till) > now) and id or nil
end

-- Return how a parent ended: "complete", "failed", "cancelled", "removed", or "open".
-- Looked up once, however many of the drafts wait for it.
local how_ended = {}
local function ended(id)
  if not how_ended[id] then
    local head = header(id)
    local place = head and place_of(id, queue(head.type))
    local is_gone = not place or place == "parked"
    how_ended[id] = is_gone and "removed" or FINAL[place] and place or "open"
  end
  return how_ended[id]
end

-- Return the parents on this shard that are still waited for, those on other shards, and
-- the first that can no longer succeed, with how it ended.
local function parents_of(list, any)
  local open, remote, lost = {}, {}, nil
  for parent in string.gmatch(list, "%d+") do
    if parent % shards ~= shard then
      remote[#remote + 1] = parent
    else
      local how = ended(parent)
      if how == "open" or (how == "failed" and not any) then
        open[#open + 1] = parent
      elseif how ~= "complete" and not any then
        lost = lost or { parent = parent, how = how }
      end
    end
  end
  return open, remote, lost
end

local function new_id(plan, left, options, body)
  next_seq = next_seq + 1
  local id = next_seq * shards + shard
  records[#records + 1] = job .. id
  records[#records + 1] = left .. "\t" .. now .. "\t" .. plan.type .. options .. "\n" .. body
  answer[#answer + 1] = id
  plan.added = plan.added + 1
  return id
end

local is_shard_checked = false
-- An existing job with its creation time; one of this call is not written yet.
local function answer_of(holder)
  local head = header(holder)
  return "!" .. holder .. "@" .. (head and head.created or now)
end

local function draft_full(plan, left, options, at)
  local body, delay, due, unique, unique_for, expires, list, any =
    unpack(ARGV, at, at + 7)
  if unique ~= "" then
    local by = holder(plan, unique)
    if by then
      answer[#answer + 1] = answer_of(by)
      is_range = false
      return
    end
  end
  local id = new_id(plan, left, options, body)
  local open, remote, lost = {}, {}, nil
  if list ~= "" then
    if not is_shard_checked then
      check_shard()
      is_shard_checked = true
    end
    open, remote, lost = parents_of(list, any == "1")
  end
  due = tonumber(due) or (now + tonumber(delay))
  local entry = { id = id, due = due, open = open, remote = remote, lost = lost,
    any = any == "1" }
  if lost then
    entry.state = "cancelled"
    entry.retention = string.match(options, "\tretention=(%d+)")
    if unique ~= "" and unique_for ~= "0" then
      entry.unique, entry.unique_till = unique, now + tonumber(unique_for)
    end
  elseif #open + #remote > 0 then
    entry.state = "blocked"
  else
    entry.state = due > now and "delayed" or "waiting"
  end
  plan.special[#plan.special + 1] = entry
  if has_listeners then
    new_jobs[#new_jobs + 1] = { id = id, type = plan.type, state = entry.state }
  end
  if expires ~= "0" and not lost then
    table.insert(plan.expires, now + tonumber(expires))
    table.insert(plan.expires, id)
  end
  if unique ~= "" and (not lost or unique_for ~= "0") then
    taken[plan.q .. unique] = id
    local till = unique_for == "0" and 0 or now + tonumber(unique_for)
    table.insert(plan.unique, unique)
    table.insert(plan.unique, id .. ":" .. till)
  end
  if entry.state == "waiting" then
    local priority = tonumber(string.match(left, "%-?%d+"))
    table.insert(plan.waiting, score(priority, id))
    table.insert(plan.waiting, id)
  elseif entry.state == "delayed" then
    table.insert(plan.delayed, due)
    table.insert(plan.delayed, id)
  end
end

local at = 10
while ARGV[at] do
  local left, job_type, options, form, count = unpack(ARGV, at, at + 4)
  local plan = plan_for(job_type)
  at = at + 5
  if form == "plain" then
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
      draft_full(plan, left, options, at)
      at = at + 8
    end
  end
end

if next_seq >= first_seq then
  check_live(first_seq, next_seq)
end
if schedule ~= "" then
  redis.call("ZCARD", root .. ":due")
end

-- Move.
if schedule ~= "" then
  if new == "" then
    redis.call("HDEL", root .. ":schedules", schedule)
  else
    -- 0 if another job holds the unique key.
    local id = tonumber(answer[1]) or 0
    redis.call("HSET", root .. ":schedules", schedule, new .. id .. "]]}")
  end
  if fires_at == "" then
    redis.call("ZREM", root .. ":due", schedule)
  else
    redis.call("ZADD", root .. ":due", fires_at, schedule)
  end
end
if next_seq >= first_seq then
  redis.call("SET", root .. ":ids", next_seq)
  redis.call("MSET", unpack(records))
  mark_live(first_seq, next_seq)
end
for _, plan in ipairs(plans) do
  local q = plan.q
  redis.call("SADD", root .. ":types", plan.type)
  request_maintenance(plan.type)
  if #plan.waiting > 0 then
    redis.call("ZADD", q .. "waiting", unpack(plan.waiting))
    wake(q)
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
  for _, entry in ipairs(plan.special) do
    local id = entry.id
    if entry.state == "blocked" then
      redis.call("ZADD", q .. "blocked", id, id)
      for _, parent in ipairs(entry.open) do
        redis.call("SADD", job .. id .. ":after", parent)
        redis.call("ZADD", job .. parent .. (entry.any and ":finally" or ":then"), id, id)
        redis.call("SADD", root .. ":parents", parent)
      end
      for _, parent in ipairs(entry.remote) do
        redis.call("SADD", job .. id .. ":after", parent)
        redis.call("HSET", root .. ":outbox", "link:" .. id .. ":" .. parent,
          entry.any and "1" or "0")
        request_maintenance(SHARD)
      end
    elseif entry.state == "cancelled" then
      redis.call("ZADD", q .. "cancelled", now, id)
      if entry.unique then
        redis.call("ZADD", q .. "lapse", entry.unique_till, entry.unique)
      end
      if entry.retention then
        redis.call("ZADD", q .. "retain_cancelled", now + entry.retention, id)
      end
      redis.call("APPEND", job .. id, '\n{"run":"","at":' .. now
        .. ',"outcome":"cancelled","reason":"job ' .. entry.lost.parent
        .. ", which it waited for, was " .. entry.lost.how .. '"}')
    end
  end
  if plan.added > 0 then
    local added = add_up(minute, plan.type .. ":added", plan.added)
    if added == plan.added then
      redis.call("EXPIRE", minute, 90000)
    end
  end
end
if is_range and #answer > 1 and shards == 1 then
  answer = now .. " " .. answer[1] .. "-" .. answer[#answer]
else
  answer = now .. " " .. table.concat(answer, ",")
end
remember(seq .. ":" .. answer)

-- Publish.
for _, one in ipairs(new_jobs) do
  emit("enqueue", one.id, one.type, 0, '{"state":"' .. one.state .. '"}')
end
publish()
return { "OK", answer }
