-- Stop before the first write if a structure is not what it must be.  Redis undoes
-- nothing: an error half-way would leave a job in no structure, or in two.
local TYPE_ZSETS = { "waiting", "delayed", "complete", "failed", "cancelled", "blocked",
  "held", "parked", "ttl", "expires", "retain", "lapse", "wake" }
local TYPE_HASHES = { "active", "tries", "progress", "unique", "running", "rate" }

local function check_type(job_type)
  local q = queue(job_type)
  for _, name in ipairs(TYPE_ZSETS) do
    redis.call("ZCARD", q .. name)
  end
  for _, name in ipairs(TYPE_HASHES) do
    redis.call("HLEN", q .. name)
  end
end

local function check_shard()
  for _, name in ipairs({ "workers", "listeners", "watched", "due" }) do
    redis.call("ZCARD", root .. ":" .. name)
  end
  for _, name in ipairs({ "meta", "info", "claims", "cancelling", "paused", "limits",
    "outbox", "schedules", "stats:" .. math.floor(now / 60000) }) do
    redis.call("HLEN", root .. ":" .. name)
  end
  redis.call("SCARD", root .. ":types")
  redis.call("SCARD", root .. ":parents")
  redis.call("STRLEN", root .. ":ids")
  redis.call("STRLEN", root .. ":fence")
  local last = tonumber(redis.call("GET", root .. ":ids") or 0) or 0
  redis.call("STRLEN", root .. ":live:" .. math.floor(last / 65536))
end
