-- Subjects that `kue doctor` can inspect: a list of facts for each, and its digest.

-- Keys that are not of the type that the caller expects, or that expire: key, Redis type,
-- whether it expires.
local function facts_of_keys(from, to)
  local facts = {}
  for at = from, to, 2 do
    local key = root .. ":" .. ARGV[at]
    local kind = redis.call("TYPE", key).ok
    local expires = redis.call("PTTL", key) >= 0 and "1" or "0"
    if kind ~= "none" and (kind ~= ARGV[at + 1] or expires == "1") then
      facts[#facts + 1] = ARGV[at]
      facts[#facts + 1] = kind
      facts[#facts + 1] = expires
    end
  end
  return facts
end

-- A unique key of a type: its entry, where its holder is, whether the holder has that key,
-- and whether maintenance will free it.
local function facts_of_unique(job_type, key)
  local q = queue(job_type)
  local held = read("HGET", q .. "unique", key)
  if not held then
    return {}
  end
  local holder = string.match(held, "^(%d+):%d+:?%d*$") or ""
  local head = header(holder)
  return { held, status_of(holder), head and head.unique == key and "1" or "0",
    read("ZSCORE", q .. "lapse", key) and "1" or "0" }
end

-- A unique key that is to be freed: when, and its entry.
local function facts_of_lapse(job_type, key)
  local q = queue(job_type)
  local till = read("ZSCORE", q .. "lapse", key)
  return till and { till, read("HGET", q .. "unique", key) or "" } or {}
end

-- A key that a limit lists: whether it does, and whether jobs run or are held under it.
local function facts_of_limit_key(name, key)
  local prefix = root .. "::" .. name .. ":"
  if read("SISMEMBER", prefix .. "keys", key) ~= 1 then
    return {}
  end
  local is_used = redis.call("EXISTS", prefix .. "held:" .. key, prefix .. "running:" .. key)
  return { "1", is_used > 0 and "1" or "0" }
end

-- A schedule: whether there is one, its text, and when it fires.
local function facts_of_schedule(name)
  local text = read("HGET", root .. ":schedules", name)
  local due = read("ZSCORE", root .. ":due", name)
  return (text or due) and { text and "1" or "0", text or "", due or "" } or {}
end

-- Groups whose stored number of running jobs is wrong: group, stored, counted, and the held
-- job that gets the next slot with its score.
local function facts_of_groups(job_type)
  local q, counted = queue(job_type), {}
  local runs = read("HKEYS", q .. "active") or {}
  for _, id in ipairs(runs) do
    local head = header(id)
    if head and head.group then
      counted[head.group] = (counted[head.group] or 0) + 1
    end
  end
  local facts, written = {}, read("HGETALL", q .. "running") or {}
  local function compare(group, text)
    local number = counted[group] or 0
    if text ~= tostring(number) and (text ~= "" or number > 0) then
      facts[#facts + 1] = group
      facts[#facts + 1] = text
      facts[#facts + 1] = tostring(number)
      local best = read("ZRANGE", q .. "held:" .. group, 0, 0, "WITHSCORES") or {}
      facts[#facts + 1] = best[1] or ""
      facts[#facts + 1] = best[2] or ""
    end
  end
  for i = 1, #written, 2 do
    compare(written[i], written[i + 1])
    counted[written[i]] = nil
  end
  local missing = {}
  for group in pairs(counted) do
    missing[#missing + 1] = group
  end
  table.sort(missing)
  for _, group in ipairs(missing) do
    compare(group, "")
  end
  return facts
end

-- The errors of a type: how many jobs are failed, the last of them and when, the length of
-- the list of counts, fingerprint and count of each, and the fields of `:causes`.  These
-- change when failed jobs come or go; to count all jobs here would take too long.
local function facts_of_errors(job_type)
  local q = queue(job_type)
  local last = read("ZRANGE", q .. "failed", -1, -1, "WITHSCORES") or {}
  local counts = read("ZRANGE", q .. "errors", 0, -1, "WITHSCORES") or {}
  local facts = { tostring(read("ZCARD", q .. "failed") or 0), last[1] or "",
    last[2] or "", tostring(#counts) }
  local names = read("HKEYS", q .. "causes") or {}
  table.sort(names)
  for _, list in ipairs({ counts, names }) do
    for _, text in ipairs(list) do
      facts[#facts + 1] = text
    end
  end
  return facts
end

-- A flow: where its job is, if on this shard; whether that one's shard is still to be
-- notified of the members here; how many there are, and the fields with their values.
local function facts_of_flow(flow)
  local key, is_home = root .. ":flow:" .. flow, flow % shards == shard
  local link = read("HGET", root .. ":outbox", "root:" .. flow .. ":" .. shard)
  local facts = { is_home and status_of(flow) or "elsewhere", link and "1" or "0",
    tostring(read("ZCARD", root .. ":members:" .. flow) or 0) }
  local fields = read("HKEYS", key) or {}
  table.sort(fields)
  for _, field in ipairs(fields) do
    facts[#facts + 1] = field
    facts[#facts + 1] = read("HGET", key, field) or ""
  end
  return (facts[3] ~= "0" or #fields > 0) and facts or {}
end

-- What the shard of a flow's job knows of another that has members: where the job is,
-- whether it knows of them, and whether it still has to report that the job is gone.
local function facts_of_flow_home(flow, at)
  return { status_of(flow),
    read("HEXISTS", root .. ":flow:" .. flow, "at:" .. at) == 1 and "1" or "0",
    read("HEXISTS", root .. ":outbox", "drop:" .. flow .. ":" .. at) == 1 and "1" or "0" }
end

-- Where jobs are.
local function facts_of_places(from, to)
  local facts = {}
  for at = from, to do
    facts[#facts + 1] = status_of(ARGV[at])
  end
  return facts
end

-- A small record: whether it exists, when it expires, and when it is to be deleted.
local function facts_of_kept(field)
  local text = read("HGET", root .. ":kept", field)
  local at = read("ZSCORE", root .. ":fading", field)
  if not text and not at then
    return {}
  end
  local till = string.match(text or "\t", "^(%d*)\t")
  return till and { text and "1" or "", till, at or "" } or { "unread" }
end

-- When maintenance looks at a type, and whether there is such a type.
local function facts_of_agenda(job_type)
  local at = read("ZSCORE", root .. ":agenda", job_type)
  return at and { at, read("SISMEMBER", root .. ":types", job_type) == 1 and "1" or "0" }
    or {}
end

-- One entry of a set, a hash or a list, or nothing.
local function facts_of_entry(key, member)
  local key_of = root .. ":" .. key
  local value = read("HGET", key_of, member) or read("ZSCORE", key_of, member)
    or (read("SISMEMBER", key_of, member) == 1 and "1")
    or (read("LPOS", key_of, member) and "1")
  return { value or nil }
end

-- Inspect the subject in ARGV `from` to `to`: a kind, and its arguments.
local function look_at(from, to)
  local kind, name, rest, facts = ARGV[from], ARGV[from + 1], ARGV[from + 2], nil
  if kind == "job" then
    local places, others = {}, {}
    for at = from + 3, to do
      local list = at - from - 2 <= tonumber(rest) and places or others
      list[#list + 1] = ARGV[at]
    end
    facts = facts_of_job(name, places, others)
  elseif kind == "dependency" then
    facts = { dependency_on(name, rest) }
  elseif kind == "flow" then
    facts = facts_of_flow(name)
  elseif kind == "flow home" then
    facts = facts_of_flow_home(name, rest)
  elseif kind == "places" then
    facts = facts_of_places(from + 1, to)
  elseif kind == "keys" then
    facts = facts_of_keys(from + 1, to)
  elseif kind == "unique" then
    facts = facts_of_unique(name, rest)
  elseif kind == "lapse" then
    facts = facts_of_lapse(name, rest)
  elseif kind == "limit key" then
    facts = facts_of_limit_key(name, rest)
  elseif kind == "schedule" then
    facts = facts_of_schedule(name)
  elseif kind == "kept" then
    facts = facts_of_kept(name)
  elseif kind == "agenda" then
    facts = facts_of_agenda(name)
  elseif kind == "groups" then
    facts = facts_of_groups(name)
  elseif kind == "errors" then
    facts = facts_of_errors(name)
  elseif kind == "entry" then
    facts = facts_of_entry(name, rest)
  else
    facts = { read("GET", root .. ":" .. name) or nil }
  end
  return facts, redis.sha1hex(table.concat(facts, "\0"))
end
