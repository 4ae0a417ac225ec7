-- Agenda of maintenance: which types are due for a look, when each needs the next, and
-- which can be forgotten.  `agenda` and `is_clock_owned` are the script's.
local DAY_MS = 86400000
-- An empty type is entered with a time that ends in half a millisecond: if that still
-- stands when it comes, the type was empty all the time.
local EMPTY_MARK = 0.5
local MAX_SCHEDULES = 1000
-- After ended jobs with their own retention others may be due: looked at this often.
local OWN_REST_MS = 60000
local HELD_BY_TYPE = { "waiting", "held", "active", "delayed", "complete", "failed",
  "cancelled", "blocked", "parked", "expires", "ttl", "lapse", "unique", "running",
  "tries", "progress" }

-- Return the types to look at, the longest overdue first; how many entries are due; and
-- whether SHARD is.
local function types_due()
  local till = is_clock_owned and "+inf" or now
  local count = redis.call("ZCOUNT", agenda, "-inf", till)
  local found = redis.call("ZRANGEBYSCORE", agenda, "-inf", till, "WITHSCORES",
    "LIMIT", 0, is_clock_owned and count or MAX_TYPES)
  local types, is_shard_due = {}, count == 0
  for i = 1, #found, 2 do
    if found[i] == SHARD then
      is_shard_due = true
    else
      local at = tonumber(found[i + 1])
      types[#types + 1] = { type = found[i], q = queue(found[i]),
        empty_till = at % 1 == EMPTY_MARK and at }
    end
  end
  return types, count, is_shard_due
end

-- Return where a scan in parts continues; from its beginning, if that cannot be read.
local function cursor_of(walk)
  local cursor = redis.call("HGET", root .. ":meta", walk) or "0"
  return #cursor < 20 and string.match(cursor, "^%d+$") or "0"
end

-- Enter types that are missing, some per pass: maintenance would never look at them.
local function enter_types()
  local cursor = cursor_of("types")
  local page = redis.call("SSCAN", root .. ":types", cursor, "COUNT", MAX_TYPES)
  local entries = {}
  for i, job_type in ipairs(page[2]) do
    entries[2 * i - 1], entries[2 * i] = now + LOOK_MS, job_type
  end
  if #entries > 0 then
    redis.call("ZADD", agenda, "NX", unpack(entries))
  end
  if page[1] ~= cursor then
    redis.call("HSET", root .. ":meta", "types", page[1])
  end
end

local function is_empty(q)
  local keys = {}
  for i, name in ipairs(HELD_BY_TYPE) do
    keys[i] = q .. name
  end
  return redis.call("EXISTS", unpack(keys)) == 0
end

local schedules
-- Return whether a schedule adds jobs of the type; with very many schedules, assume so.
local function has_schedule(job_type)
  if redis.call("HLEN", root .. ":schedules") > MAX_SCHEDULES then
    return true
  end
  local name = string.gsub(job_type, "%%(%x%x)", function(code)
    return string.char(tonumber(code, 16))
  end)
  schedules = schedules or redis.call("HVALS", root .. ":schedules")
  for _, text in ipairs(schedules) do
    if string.find(text, '"type":"' .. name .. '"', 1, true) then
      return true
    end
  end
  return false
end

local function can_be_forgotten(job_type)
  return redis.call("HEXISTS", root .. ":limits", job_type) == 0
    and redis.call("HEXISTS", root .. ":paused", job_type) == 0
    and not has_schedule(job_type)
end

local function forget_type(entry)
  redis.call("SREM", root .. ":types", entry.type)
  redis.call("ZREM", agenda, entry.type)
  redis.call("UNLINK", entry.q .. "wake", entry.q .. "rate", entry.q .. "errors",
    entry.q .. "causes", entry.q .. "opens", entry.q .. "fair")
  redis.call("HDEL", root .. ":search", "type:" .. entry.type)
  for _, state in ipairs({ "complete", "failed", "cancelled" }) do
    redis.call("HDEL", root .. ":meta", "pruned:" .. state .. ":" .. entry.type)
  end
end

-- Return when the oldest of a state is to be pruned by age.  One with its own retention is
-- not: what comes after it is looked at later, unless this pass was limited.
local function prune_time(q, state, age, is_limited)
  local head = redis.call("ZRANGE", q .. state, 0, 0, "WITHSCORES")
  local at = (tonumber(head[2]) or math.huge) + age
  if head[1] and not is_limited
    and redis.call("ZSCORE", q .. "retain_" .. state, head[1]) then
    return math.max(at, now + OWN_REST_MS)
  end
  return at
end

-- Return when something of the type is due first.
local function first_time(q, rules, is_limited)
  local first = math.huge
  local function look(name)
    local head = redis.call("ZRANGE", q .. name, 0, 0, "WITHSCORES")
    first = math.min(first, tonumber(head[2]) or math.huge)
  end
  for _, name in ipairs({ "delayed", "expires", "lapse" }) do
    look(name)
  end
  for i, state in ipairs({ "complete", "failed", "cancelled" }) do
    look("retain_" .. state)
    if rules[2 * i] then
      first = math.min(first, prune_time(q, state, rules[2 * i], is_limited))
    end
  end
  return first
end

-- Enter the next look at a type; `is_limited` if this pass may have left work.
local function enter_next_look(entry, rules, is_limited)
  local q, soon = entry.q, is_limited and now or now + LOOK_MS
  local at = soon
  if redis.call("EXISTS", q .. "waiting", q .. "active", q .. "held") == 0 then
    if is_empty(q) then
      local till = entry.empty_till
      if till and till <= now and can_be_forgotten(entry.type) then
        return forget_type(entry)
      end
      at = till and till > now and till or now + DAY_MS + EMPTY_MARK
    else
      at = math.max(soon, math.min(first_time(q, rules, is_limited), now + MAX_REST_MS))
    end
  end
  -- No later: the time also shows since when its runs have been searched (lib/lost_runs).
  redis.call("ZADD", agenda, math.min(at, entry.searched_since + LOOK_MS), entry.type)
end
