-- Integrity checks before the first write: stop if a key has the wrong Redis type.  Redis
-- does not roll back: an error half-way would leave a job in no structure, or in two.
local TYPE_ZSETS = { "waiting", "delayed", "complete", "failed", "cancelled", "blocked",
  "held", "parked", "ttl", "expires", "retain_complete", "retain_failed",
  "retain_cancelled", "lapse", "wake", "opens", "fair" }
local TYPE_HASHES = { "active", "tries", "progress", "unique", "running", "rate" }

-- One command checks many sorted sets: with a key that never exists the intersection is
-- empty, and costs nothing.
local function check_zsets(prefix, names)
  local keys = { root .. ":nothing" }
  for i, name in ipairs(names) do
    keys[i + 1] = prefix .. name
  end
  redis.call("ZINTERCARD", #keys, unpack(keys))
end

local checked = {}
local function check_type(job_type)
  if checked[job_type] then
    return
  end
  checked[job_type] = true
  local q = queue(job_type)
  check_zsets(q, TYPE_ZSETS)
  for _, name in ipairs(TYPE_HASHES) do
    redis.call("HLEN", q .. name)
  end
end

-- Check the structures of named limits, each "name:key" (lib/named_limits).
local function check_limits(refs)
  redis.call("HLEN", root .. ":named_limits")
  for _, ref in ipairs(refs) do
    local name, key = string.match(ref, "^([^:]*):(.*)$")
    local prefix = root .. "::" .. (name or "") .. ":"
    redis.call("SCARD", prefix .. "keys")
    redis.call("ZCARD", prefix .. "held:" .. (key or ""))
    redis.call("ZCARD", prefix .. "running:" .. (key or ""))
    redis.call("STRLEN", prefix .. "rate:" .. (key or ""))
  end
end

-- Check the structures of one job, and of its parents and dependants.  No call reads more
-- dependants than lib/dependants lets it write, however many jobs it gets.
local MAX_CHECKED = 200
local checked_dependants, checked_parents = 0, 0
local function check_ties(id, head)
  if head.group then
    redis.call("ZCARD", queue(head.type) .. "held:" .. head.group)
  end
  if head.limits then
    check_limits(head.limits)
  end
  redis.call("LLEN", job .. id .. ":log")
  redis.call("ZCARD", job .. id .. ":then")
  redis.call("ZCARD", job .. id .. ":finally")
  for _, parent in ipairs(redis.call("SMEMBERS", job .. id .. ":after")) do
    redis.call("ZCARD", job .. parent .. ":then")
    redis.call("ZCARD", job .. parent .. ":finally")
    checked_parents = checked_parents + 1
  end
  for _, list in ipairs({ ":then", ":finally" }) do
    local left = MAX_CHECKED - checked_dependants
    local children = left > 0 and redis.call("ZRANGE", job .. id .. list, 0, left - 1) or {}
    for _, child in ipairs(children) do
      redis.call("SCARD", job .. child .. ":after")
    end
    checked_dependants = checked_dependants + #children
  end
end

local function check_job(id, head)
  check_type(head.type)
  check_ties(id, head)
end

local function check_shard()
  check_zsets(root .. ":", { "workers", "listeners", "watched", "due", "agenda",
    "failures" })
  for _, name in ipairs({ "meta", "info", "cancelling", "paused", "limits",
    "named_limits", "failure_rules", "outbox", "schedules", "orders", "stacks", "search", "stats:" .. math.floor(now / 60000) }) do
    redis.call("HLEN", root .. ":" .. name)
  end
  redis.call("SCARD", root .. ":types")
  redis.call("SCARD", root .. ":parents")
  redis.call("STRLEN", root .. ":ids")
  redis.call("STRLEN", root .. ":fence")
  local last = tonumber(redis.call("GET", root .. ":ids") or 0) or 0
  redis.call("STRLEN", root .. ":live:" .. math.floor(last / 65536))
end
