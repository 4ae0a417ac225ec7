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
--- @include lib/parents
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

-- Return how a parent on this shard ended, also if it is one of this call.
local function ended(id)
  local entry = entry_of[id]
  if entry or math.floor(id / shards) >= first_seq then
    return entry and entry.state == "cancelled" and "cancelled" or "open"
  end
  return parents.ended(id)
end

-- Return the id that a reference to a draft stands for; nil if that was refused.
local function resolve(ref)
  local position = string.match(ref, "^%-(%d+)$")
  return not position and ref or string.match(answer[tonumber(position)], "%d+")
end

-- Refuse the whole call: for a parent that there never was, or else the lowest id.
local function refuse(id, why)
  local order = why == "unknown" and 0 or tonumber(id)
  if not refusal or order < refusal.order then
    refusal = { "REFUSED", id, why, order = order }
  end
end

-- Return the on_parent_failure of a stored job if it is blocked, and else nil and where it
-- is; looked up once.
local policies = {}
local function policy_of_blocked(id)
  if not policies[id] then
    local head = header(id)
    local place = head and place_of(id, queue(head.type))
    if place ~= "blocked" then
      return nil, place == "held" and "waiting" or place or "gone"
    end
    redis.call("SCARD", job .. id .. ":after")
    policies[id] = head.failure or "block"
  end
  return policies[id]
end

-- Refuse the call if a job of this shard that is named by its id cannot wait for others.
local function check_targets(list)
  for id in string.gmatch(list, "[^,]+") do
    if string.sub(id, 1, 1) ~= "~" and id % shards == shard then
      local policy, place = policy_of_blocked(id)
      if not policy then
        refuse(id, place)
      end
    end
  end
end

-- Return a reserved id as a number; refuse the call if it is not free.
local function read_reserved(text)
  local id = tonumber(text)
  local seq = id and math.floor(id / shards)
  if id and (id % shards ~= shard or seq < 1 or seq >= first_seq or reserved[seq]
      or redis.call("EXISTS", job .. text) == 1) then
    refuse(text, "unreserved")
  end
  return id
end

-- Resolve references; return nil if one of the drafts was refused.
local function resolve_all(list)
  local ids = {}
  for ref in string.gmatch(list, "[^,~]+") do
    local id = resolve(ref)
    if not id then
      return nil
    end
    ids[#ids + 1] = id
  end
  return ids
end

-- Return the flow that a draft names, and whether it has an index; "own" for the draft.
local has_job = {}
local function read_flow(text)
  local ref, mark = string.match(text, "^(%-?%d*)(!?)$")
  if ref == "" or ref == "-" .. #answer + 1 then
    return ref ~= "" and "own", true
  end
  local flow = resolve(ref)
  if flow == ref and flow % shards == shard and has_job[flow] == nil then
    has_job[flow] = redis.call("EXISTS", job .. flow) == 1
  end
  return flow, mark == "" and has_job[flow] ~= false
end

-- Return what ties a draft to others; nil if it refers to a refused draft.
local is_shard_checked = false
local function read_ties(ties)
  if not is_shard_checked then
    check_shard()
    is_shard_checked = true
  end
  local mark, after, before, flow, id, target =
    string.match(ties, "^(=?)([^;]*);([^;]*);([^;]*);([^;]*);(.*)$")
  for id in string.gmatch(after, "[^,]+") do
    if string.sub(id, 1, 1) ~= "-" and id % shards == shard
      and not (math.floor(id / shards) >= 1 and math.floor(id / shards) < first_seq) then
      refuse(id, "unknown")
    end
  end
  check_targets(before)
  local tied = { parents = resolve_all(after), before = resolve_all(before),
    has_refs = mark == "=", target = target, id = read_reserved(id) }
  tied.flow, tied.is_indexed = read_flow(flow)
  return tied.parents and tied.before and tied.flow ~= nil and tied or nil
end

local function new_id(plan, given)
  local id = given
  if given then
    reserved[math.floor(given / shards)] = true
    is_range = false
  else
    next_seq = next_seq + 1
    id = next_seq * shards + shard
  end
  records[#records + 1] = job .. id
  records[#records + 1] = ""
  answer[#answer + 1] = id
  plan.added = plan.added + 1
  return id
end

-- An existing job with its creation time; one of this call is not written yet.
local function answer_of(holder)
  local head = header(holder)
  return "!" .. holder .. "@" .. (head and head.created or now)
end

-- Return the entry of the holder of a unique key that a draft may replace; nil if none may.
local function replaceable(plan, id, place)
  local entry = entry_of[tostring(id)]
  if not entry then
    entry = replacing().entry(id, place)
    if entry then
      entry_of[tostring(id)] = entry
      entry.flow = entry.old.flow
      plan.special[#plan.special + 1] = entry
      records[#records + 1] = job .. id
      records[#records + 1] = ""
      entry.record = #records
    end
  end
  return entry and entry.state ~= "cancelled" and entry or nil
end

local function due_state(entry)
  return entry.due > now and "delayed" or "waiting"
end

-- Set where the job of an entry goes, and the parents that it waits for.
local function set_state(entry, tied)
  local is_released = false
  entry.open, entry.lost, entry.target = {}, nil, nil
  if tied then
    entry.target = tied.target ~= "" and tied.target
    entry.open, entry.lost, is_released = parents.sort(tied.parents, entry.policy, ended)
  end
  -- One that others come before may wait for nothing but those.
  if entry.lost and not (entry.target and #entry.open == 0 and entry.policy == "only") then
    entry.state = "cancelled"
  elseif is_released then
    entry.state = due_state(entry)
  elseif #entry.open > 0 or entry.target then
    entry.state, entry.lost = "blocked", nil
  else
    entry.state = due_state(entry)
  end
  if entry.target == "2" and entry.state == "blocked" then
    entry.open[#entry.open + 1] = "itself"
  end
end

-- Release a job that no draft of this call comes before after all.
local function end_target(entry)
  if entry.state ~= "blocked" or #entry.open > 0 then
    return
  end
  ended_targets[#ended_targets + 1] = entry
  if entry.policy ~= "only" then
    entry.state = due_state(entry)
    return
  end
  entry.state, entry.expires = "cancelled", nil
  entry.lost = "none of the jobs it waited for failed"
  entry.unique = entry.least ~= 0 and entry.unique or nil
end

-- Have a blocked job wait for the new job of an entry.  One that is not blocked, because
-- its own parents cancelled or released it or because it is older, does not.
local function put_before(entry, target)
  local other = entry_of[target]
  if target % shards ~= shard then
    entry.joins[#entry.joins + 1] = target
  elseif other and other.state == "blocked" then
    other.open[#other.open + 1] = entry.id
  elseif not other and policy_of_blocked(target) then
    entry.before[#entry.before + 1] = target
  end
end

local function join_flow(entry, tied)
  entry.flow = tied.flow == "own" and tostring(entry.id) or tied.flow
  if tied.is_indexed then
    local members = joined[entry.flow]
    if not members then
      redis.call("HLEN", root .. ":flow:" .. entry.flow)
      redis.call("ZCARD", root .. ":members:" .. entry.flow)
      members = {}
      joined[entry.flow] = members
    end
    members[#members + 1] = entry
  end
end

-- Return the header of an entry's record before its creation time and after its type.
local function header_of(entry, left, options, tied)
  if tied and tied.has_refs then
    options = options .. "\tafter=" .. table.concat(tied.parents, ",")
  end
  if entry.flow then
    options = options .. "\tflow=" .. entry.flow
  end
  local is_marked = options == "" or string.sub(left, 1, 1) == "*"
  return is_marked and left or "*" .. left, options
end

-- Let the job of an entry have its unique key.
local function set_key(plan, entry, unique, unique_for, at_most)
  if unique == "" or (entry.lost and unique_for == "0") then
    return
  end
  local since = math.max(now, entry.created)
  taken[plan.q .. unique] = entry.id
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
    at_most, replaces, expires, ties)
  local by, place, entry, tied = nil, nil, nil, nil
  if ties ~= "" then
    tied = read_ties(ties)
    if not tied then
      answer[#answer + 1] = "#"
      is_range = false
      return
    end
  end
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
  local policy = string.match(options, "\tfailure=(%a+)") or "block"
  if entry then
    if replaces ~= "0" then
      due = math.min(due, entry.created + tonumber(replaces))
    end
    entry.due, entry.policy = due, policy
    -- It waits for no others, whatever came before the job that it was.
    set_state(entry)
    left, options = header_of(entry, left, options)
    records[entry.record] = replacing().record(entry, left, plan.type, options, body)
    answer[#answer + 1] = "~" .. entry.id .. "@" .. entry.created
    is_range = false
  else
    entry = { created = now, due = due, policy = policy, history = "" }
    set_state(entry, tied)
    if is_refused(plan, entry) then
      answer[#answer + 1] = "#"
      is_range = false
      return
    end
    entry.id, entry.record = new_id(plan, tied and tied.id), #records
    if tied then
      entry.before, entry.joins = {}, {}
      for _, target in ipairs(tied.before) do
        put_before(entry, target)
      end
      if tied.flow then
        join_flow(entry, tied)
      end
      left, options = header_of(entry, left, options, tied)
    end
    records[entry.record] = left .. "\t" .. now .. "\t" .. plan.type .. options .. "\n" .. body
    plan.special[#plan.special + 1] = entry
    entry_of[tostring(entry.id)] = entry
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
  entry.type = plan.type
  if entry.target then
    end_target(entry)
  end
  if entry.state == "waiting" then
    entry.is_new = true
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
  if form == "refuse" then
    return { "REFUSED", left, options }
  end
  adds_quiet = adds_quiet or string.find(options, "\tquiet=1", 1, true)
  local plan = plan_for(job_type)
  at = at + 5
  if form == "plain" and plan.rule then
    for _ = 1, count do
      draft_full(plan, left, options, ARGV[at], 0, "", "", "0", "0", "", "0", "")
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
      draft_full(plan, left, options, unpack(ARGV, at, at + 8))
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
    enter(plan, entry)
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

-- Have the job of an entry wait for itself, until the caller has added all before it.
local function hold(id)
  redis.call("SADD", job .. id .. ":after", id)
  redis.call("HSET", root .. ":outbox", "hold:" .. id, now)
  request_maintenance(SHARD)
end

local function write_ties(entry)
  local id = entry.id
  for _, target in ipairs(entry.before or {}) do
    -- Unless a later draft of this call replaced it.
    if not entry_of[target] then
      parents.link(target, id, policies[target])
    end
  end
  for _, target in ipairs(entry.joins or {}) do
    redis.call("HSET", root .. ":outbox", "join:" .. target .. ":" .. id, "")
    request_maintenance(SHARD)
  end
  for _, parent in ipairs(entry.state == "blocked" and entry.open or {}) do
    if parent == "itself" then
      hold(id)
    else
      parents.link(id, parent, entry.policy)
    end
  end
end

-- A job that is cancelled at once may have dependants: maintenance notifies them.
local function notify_later(entry)
  if redis.call("SISMEMBER", root .. ":parents", entry.id) == 1 then
    redis.call("HSET", root .. ":outbox", "rest:" .. entry.id, "cancelled")
    request_maintenance(SHARD)
  end
end

local function write_flow(flow, members)
  local key, entries, cancelled = root .. ":flow:" .. flow, {}, 0
  for _, entry in ipairs(members) do
    entries[#entries + 1], entries[#entries + 2] = entry.id, entry.id
    cancelled = cancelled + (entry.state == "cancelled" and 1 or 0)
  end
  redis.call("ZADD", root .. ":members:" .. flow, unpack(entries))
  if flow % shards == shard then
    if redis.call("HSETNX", key, "at:" .. shard, "") == 1 then
      redis.call("SADD", root .. ":parents", flow)
    end
  elseif redis.call("HSETNX", key, "linked", "") == 1 then
    redis.call("HSET", root .. ":outbox", "root:" .. flow .. ":" .. shard, "")
    request_maintenance(SHARD)
  end
  if cancelled > 0 then
    redis.call("HINCRBY", key, "cancelled", cancelled)
  end
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
  write_ties(entry)
end
for _, entry in pairs(entry_of) do
  if entry.state == "cancelled" then
    notify_later(entry)
  end
end
for flow, members in pairs(joined) do
  write_flow(flow, members)
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
