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
       body, delay, at, unique, unique_for, at_most, replaces, expires, parents, any
                             count times, for full; parents are "id,id,…"; replaces is
                             empty, or how long a job that is replaced may wait, 0 for
                             as long as it is replaced

  Returns  {"OK", answer} | {"STALE"} | {"LATE", name, …}: nothing was done, because
           another caller has changed these schedules
           answer: when they were created, a space, "first-last" or ids; the holder of
           a draft's unique key is "!id@created", or "~id@created" if it was replaced;
           "#" for a draft that the cap of its type refuses.  After it the types that
           have more waiting jobs than their caps allow, for `drop_oldest`
  Events   enqueue, update
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish
--- @include lib/job_bitmap
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
-- unique key → id of the job of this call that took it; id → its entry
local taken, entry_of = {}, {}

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

-- Return what replaces jobs; made when it is needed, because most calls replace none.
local replacement
local function replacing()
  if replacement then
    return replacement
  end
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/replace_job
  replacement = { entry = stored_entry, record = replaced_record, take_out = take_out }
  return replacement
end

-- Return the job that holds a unique key of the type, and where it is; nil if it is free.
local function holder(plan, key)
  if taken[plan.q .. key] then
    return taken[plan.q .. key]
  end
  return holder_of(plan.q, key)
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

-- Return the entry of the holder of a unique key that a draft may replace; nil if none may.
local function replaceable(plan, id, place)
  local entry = entry_of[id]
  if not entry then
    entry = replacing().entry(id, place)
    if entry then
      plan.special[#plan.special + 1] = entry
      records[#records + 1] = job .. id
      records[#records + 1] = ""
      entry.record = #records
    end
  end
  return entry and entry.state ~= "cancelled" and entry or nil
end

-- Set where the job of an entry goes, and the parents that it waits for.
local function set_state(entry, list)
  entry.open, entry.remote, entry.lost = {}, {}, nil
  if list ~= "" then
    if not is_shard_checked then
      check_shard()
      is_shard_checked = true
    end
    entry.open, entry.remote, entry.lost = parents_of(list, entry.any)
  end
  if entry.lost then
    entry.state = "cancelled"
  elseif #entry.open + #entry.remote > 0 then
    entry.state = "blocked"
  else
    entry.state = entry.due > now and "delayed" or "waiting"
  end
end

-- Let the job of an entry have its unique key.
local function set_key(plan, entry, unique, unique_for, at_most)
  if unique == "" or (entry.lost and unique_for == "0") then
    return
  end
  local since = math.max(now, entry.created)
  taken[plan.q .. unique], entry_of[entry.id] = entry.id, entry
  entry.unique = unique
  entry.least = unique_for == "0" and 0 or since + tonumber(unique_for)
  entry.most = at_most ~= "0" and since + tonumber(at_most) or nil
end

-- Return whether the cap of a type refuses a job that would wait.
local function is_refused(plan, entry)
  if not plan.room or entry.state ~= "waiting" then
    return false
  end
  plan.room = plan.room - 1
  return plan.room < 0 and plan.rule.when_full ~= "drop-oldest"
end

local function draft_full(plan, left, options, body, delay, due, unique, unique_for,
    at_most, replaces, expires, list, any)
  local by, place, entry = nil, nil, nil
  if unique ~= "" then
    by, place = holder(plan, unique)
    entry = by and replaces ~= "" and replaceable(plan, by, place)
    if by and not entry then
      answer[#answer + 1] = answer_of(by)
      is_range = false
      return
    end
  end
  due = tonumber(due) or (now + tonumber(delay))
  if entry then
    if replaces ~= "0" then
      due = math.min(due, entry.created + tonumber(replaces))
    end
    entry.due, entry.any = due, any == "1"
    set_state(entry, list)
    records[entry.record] = replacing().record(entry, left, plan.type, options, body)
    answer[#answer + 1] = "~" .. entry.id .. "@" .. entry.created
    is_range = false
  else
    entry = { created = now, due = due, any = any == "1", history = "" }
    set_state(entry, list)
    if is_refused(plan, entry) then
      answer[#answer + 1] = "#"
      is_range = false
      return
    end
    entry.id, entry.record = new_id(plan, left, options, body), #records
    plan.special[#plan.special + 1] = entry
  end
  entry.group = string.match(options, "\tgroup=([^\t]*)")
  entry.priority = tonumber(string.match(left, "%-?%d+"))
  entry.retention = string.match(options, "\tretention=(%d+)")
  entry.expires = expires ~= "0" and not entry.lost
    and math.max(now, entry.created) + tonumber(expires) or nil
  set_key(plan, entry, unique, unique_for, at_most)
  if by or has_listeners then
    new_jobs[#new_jobs + 1] = { id = entry.id, type = plan.type, state = entry.state,
      is_replaced = by }
  end
end

-- Enter a job into the lists of what is written: once no draft can replace it any more.
local function enter(plan, entry)
  local id = entry.id
  if entry.state == "waiting" then
    entry.type, entry.is_new = plan.type, true
    table.insert(plan.waiting, plan.rule and ranks.enter(id, plan.q, entry, plan.batch)
      or score(entry.priority, id))
    table.insert(plan.waiting, id)
  elseif entry.state == "delayed" then
    table.insert(plan.delayed, entry.due)
    table.insert(plan.delayed, id)
  end
  if entry.expires then
    table.insert(plan.expires, entry.expires)
    table.insert(plan.expires, id)
  end
  if entry.unique then
    table.insert(plan.unique, entry.unique)
    table.insert(plan.unique, holding(id, entry.least, entry.most))
    if entry.lost or entry.most then
      table.insert(plan.lapse, entry.lost and entry.least or entry.most)
      table.insert(plan.lapse, entry.unique)
    end
  end
end

local at, adds_quiet = of_schedule(fired + 1), false
while ARGV[at] do
  local left, job_type, options, form, count = unpack(ARGV, at, at + 4)
  adds_quiet = adds_quiet or string.find(options, "\tquiet=1", 1, true)
  local plan = plan_for(job_type)
  at = at + 5
  if form == "plain" and plan.rule then
    for _ = 1, count do
      draft_full(plan, left, options, ARGV[at], 0, "", "", "0", "0", "", "0", "", "0")
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
      draft_full(plan, left, options, unpack(ARGV, at, at + 9))
      at = at + 10
    end
  end
end

for _, plan in ipairs(plans) do
  for _, entry in ipairs(plan.special) do
    enter(plan, entry)
  end
end
if next_seq >= first_seq then
  check_live(first_seq, next_seq)
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
  redis.call("SET", root .. ":ids", next_seq)
  mark_live(first_seq, next_seq)
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
      replacing().take_out(q, entry)
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
publish()
local reply = { "OK", answer }
for _, plan in ipairs(plans) do
  if plan.room and plan.rule.when_full == "drop-oldest"
    and waiting_in(plan.q) > plan.rule.cap then
    reply[#reply + 1] = plan.type
  end
end
return reply
