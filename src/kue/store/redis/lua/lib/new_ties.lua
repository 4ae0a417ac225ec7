-- What ties new jobs to others: parents, jobs that they come before, flows, reserved ids.

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
