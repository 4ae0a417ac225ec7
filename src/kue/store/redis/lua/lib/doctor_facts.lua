-- Facts about a job for `kue doctor`, as a flat list: kind, where, value.  The doctor
-- decides by them, and `doctor_repair` acts only while they still hold.  What changes all the time
-- (a deadline that is renewed, progress) is reported as "1", or nothing could be repaired.
-- A key of the wrong Redis type counts as absent: it is reported separately.
local ZSETS = { "waiting", "held", "delayed", "complete", "failed", "cancelled", "blocked",
  "parked" }

local function read(...)
  local reply = redis.pcall(...)
  if type(reply) == "table" and reply.err then
    return false
  end
  return reply
end

-- Read an entry of a structure that many jobs share; most structures do not exist.
local exists = {}
local function is_there(key)
  if exists[key] == nil then
    exists[key] = redis.call("EXISTS", key) == 1
  end
  return exists[key]
end

local function read_entry(verb, key, member)
  return is_there(key) and read(verb, key, member)
end

-- Return where a job is among the structures of a type; nil if nowhere.
local function find_place(id, q)
  if read_entry("HGET", q .. "active", id) then
    return "active"
  end
  for _, place in ipairs(ZSETS) do
    if read_entry("ZSCORE", q .. place, id) then
      return place
    end
  end
  return nil
end

-- Return where a job is; "" if it does not exist; "nowhere" if it is parked or in no state.
local function status_of(id)
  if redis.call("EXISTS", job .. id) == 0 then
    return ""
  end
  local head = header(id)
  local place = head and find_place(id, queue(head.type))
  return place and place ~= "parked" and place or "nowhere"
end

-- Return how `parent`, a job of this shard, and job `id` refer to each other: words for
-- what is so (see `Dependency`), a colon, and where the parent is.
local function dependency_on(parent, id)
  local marks = "known"
  local function mark(word, is_so)
    marks = is_so and marks .. " " .. word or marks
  end
  mark("then", read("ZSCORE", job .. parent .. ":then", id))
  mark("finally", read("ZSCORE", job .. parent .. ":finally", id))
  mark("only", (read("ZCARD", job .. parent .. ":then") or 0)
    + (read("ZCARD", job .. parent .. ":finally") or 0) == 1)
  mark("rest", read_entry("HGET", root .. ":outbox", "rest:" .. parent))
  mark("end", read_entry("HGET", root .. ":outbox", "end:" .. id .. ":" .. parent))
  local status = status_of(parent)
  mark("lost", status == "" and tonumber(parent) and removed.outcome(parent) ~= "complete")
  return marks .. ":" .. status
end

-- Return how a member is in a flow's index: "1" if it is, "0" if there is one without it;
-- nil if there is none.
local function membership(flow, id)
  local members = root .. ":members:" .. flow
  if read_entry("ZSCORE", members, id) then
    return "1"
  end
  return (is_there(members) or is_there(root .. ":flow:" .. flow)) and "0" or nil
end

-- Note this for all jobs that `id` waits for, unless these are very many, and for `others`.
local MAX_NOTED = 1000
local function note_dependencies(note, id, others)
  local after, left = job .. id .. ":after", job .. id .. ":left"
  local is_many = (read("SCARD", after) or 0) > MAX_NOTED
  local awaited, parents = {}, not is_many and read("SMEMBERS", after) or {}
  note("many", "", is_many and "1")
  for _, parent in ipairs(parents) do
    awaited[parent] = true
  end
  for _, parent in ipairs(others) do
    if not awaited[parent] then
      parents[#parents + 1] = parent
      awaited[parent] = is_many and read("SISMEMBER", after, parent) == 1
    end
  end
  table.sort(parents)
  for _, parent in ipairs(parents) do
    local marks = awaited[parent] and "awaited " or ""
    if read_entry("SISMEMBER", left, parent) == 1 then
      marks = marks .. "left "
    end
    if (tonumber(parent) or 0) % shards == shard then
      note("dependency", parent, marks .. dependency_on(parent, id))
    else
      for _, kind in ipairs({ "link", "unlink" }) do
        local field = kind .. ":" .. id .. ":" .. parent
        if read_entry("HGET", root .. ":outbox", field) then
          marks = marks .. kind .. " "
        end
      end
      note("dependency", parent, marks .. ":")
    end
  end
end

local function is_time(score)
  return #score <= 15 and string.find(score, "^%d+$")
end

-- Note the entries of the job in a type's structures.
local function note_type(note, id, job_type)
  local q = queue(job_type)
  local run = read_entry("HGET", q .. "active", id)
  note("in", job_type .. ":active", run)
  for _, place in ipairs(ZSETS) do
    note("in", job_type .. ":" .. place, read_entry("ZSCORE", q .. place, id))
  end
  note("has", job_type .. ":tries", read_entry("HGET", q .. "tries", id))
  note("has", job_type .. ":progress", read_entry("HGET", q .. "progress", id) and "1")
  for _, name in ipairs({ "ttl", "expires", "retain_complete", "retain_failed",
    "retain_cancelled" }) do
    local at = read_entry("ZSCORE", q .. name, id)
    note("has", job_type .. ":" .. name, at and (is_time(at) and "1" or at))
  end
  local worker = run and string.match(run, "^%d+:%d+:%d+:([^:]*):")
  note("leased", "", worker and read("ZSCORE", root .. ":workers", worker) and "1")
end

-- Note the held job that gets the next slot of a group.
local function note_next(note, q, group)
  local key = q .. "held:" .. group
  local best = is_there(key) and read("ZRANGE", key, 0, 0, "WITHSCORES")
  if best and best[1] then
    note("next", best[1], best[2])
  end
end

-- Note the unique key, the group and the limits that apply to the job by its header.
local function note_header(note, id, head)
  local q = queue(head.type)
  local held = head.unique and read_entry("HGET", q .. "unique", head.unique)
  if held then
    local holder = string.match(held, "^(%d+):%d+:?%d*$") or ""
    local other = holder == tostring(id) and head or header(holder)
    note("unique", "", held)
    note("holder", holder, status_of(holder))
    note("holds", holder, other and other.unique == head.unique and "1")
  end
  if head.group then
    note("running", "", read_entry("HGET", q .. "running", head.group))
    note_next(note, q, head.group)
  end
  local text = read_entry("HGET", root .. ":limits", head.type)
  local limits, rule = read_limits(text), ranks.read_rule(text)
  note("per_key", "", limits and limits.per_key and "1")
  note("fair", "", rule and rule.fair and "1")
  note("ageing", "", rule and rule.ageing and string.format("%.0f", rule.ageing))
end

-- Note how a limit counts the job: its score among those held, whether it is among those
-- running, whether the key is listed, what kind of rule there is, and whether the type has
-- a time at which a rate lets one start.
local function note_limit(note, id, job_type, ref)
  local name, key = string.match(ref, "^([^:]*):(.*)$")
  if not name then
    return
  end
  local prefix = root .. "::" .. name .. ":"
  local most, rate = string.match(
    read_entry("HGET", root .. ":named_limits", name) or "", "^(%S+) (%S+) %S+ %S+\t")
  local kind = tonumber(most) and "concurrency" or tonumber(rate) and "rate" or "none"
  note("limit", ref, table.concat({
    read_entry("ZSCORE", prefix .. "held:" .. key, id) or "-",
    read_entry("ZSCORE", prefix .. "running:" .. key, id) and "1" or "-",
    read_entry("SISMEMBER", prefix .. "keys", key) == 1 and "1" or "-", kind,
    job_type and read_entry("ZSCORE", queue(job_type) .. "opens", ref) and "1" or "-",
  }, " "))
end

-- `places`: further types to look into, "type:held:group", ":name:held:key" of a limit, or
-- "::flow"; `others`: further jobs that it may wait for.
local function facts_of_job(id, places, others)
  local facts = {}
  local function note(kind, where, value)
    if value then
      facts[#facts + 1] = kind
      facts[#facts + 1] = where
      facts[#facts + 1] = value
    end
  end
  local record = redis.pcall("GET", job .. id)
  local head = type(record) == "string" and read_header(record) or nil
  note("record", "", type(record) == "string" and record)
  note("unread", "", type(record) == "table" and "1")
  local seen, chunk = {}, math.floor(math.floor(id / shards) / 65536)
  local function look_into(job_type)
    if not seen[job_type] then
      seen[job_type] = true
      note_type(note, id, job_type)
    end
  end
  local function look_among(job_type, group)
    if not seen[job_type .. ":" .. group] then
      seen[job_type .. ":" .. group] = true
      local key = job_type .. ":held:" .. group
      note("held", key, read_entry("ZSCORE", root .. ":" .. key, id))
    end
  end
  if head then
    look_into(head.type)
    note_header(note, id, head)
  end
  local function look_under(ref)
    if not seen["limit " .. ref] then
      seen["limit " .. ref] = true
      note_limit(note, id, head and head.type, ref)
    end
  end
  if head and head.group then
    look_among(head.type, head.group)
  end
  for _, ref in ipairs(head and head.limits or {}) do
    look_under(ref)
  end
  local function look_among_members(flow)
    if not seen["flow " .. flow] then
      seen["flow " .. flow] = true
      note("member", flow, membership(flow, id))
    end
  end
  if head and head.flow then
    look_among_members(head.flow)
  end
  for _, place in ipairs(places) do
    local flow = string.match(place, "^::(%d+)$")
    local name, key = string.match(place, "^:([^:]*):%a+:(.*)$")
    local job_type, group = string.match(place, "^([^:]*):held:(.*)$")
    if name then
      look_under(name .. ":" .. key)
    elseif flow then
      look_among_members(flow)
    else
      look_into(job_type or place)
    end
    if job_type and not name then
      look_among(job_type, group)
    end
  end
  note("live", "", read("GETBIT", root .. ":live:" .. chunk,
    math.floor(id / shards) - chunk * 65536) == 1 and "1")
  note("lost", "", read("GETBIT", root .. ":lost:" .. chunk,
    math.floor(id / shards) - chunk * 65536) == 1 and "1")
  note("unborn", "", math.floor(id / shards) > removed.last_seq() and "1")
  note("has_flow", "", is_there(root .. ":flow:" .. id) and "1")
  local of_job = job .. id .. ":"
  if redis.call("EXISTS", of_job .. "log", of_job .. "steps", of_job .. "stream",
    of_job .. "after", of_job .. "then", of_job .. "finally", of_job .. "left") > 0 then
    for _, part in ipairs({ "log", "steps", "stream", "after", "then", "finally",
      "left" }) do
      note("part", part, redis.call("EXISTS", of_job .. part) == 1 and "1")
    end
  end
  note("cancelling", "", read_entry("HGET", root .. ":cancelling", id))
  note("parent", "", read_entry("SISMEMBER", root .. ":parents", id) == 1 and "1")
  note("rest", "", read_entry("HGET", root .. ":outbox", "rest:" .. id))
  note("left", "", read_entry("HGET", root .. ":outbox", "left:" .. id) and "1")
  note("hold", "", read_entry("HGET", root .. ":outbox", "hold:" .. id) and "1")
  note_dependencies(note, id, others)
  return facts
end
