-- Find the runs of workers whose lease is over, as the types are looked at: at most
-- RUNS_A_PASS runs in one pass.  `limit` is the script's: how many it may report.
-- `:search` has where the search in a type goes on, and when a run of a worker was last
-- found: a worker is forgotten once every type was searched since.
local RUNS_A_PASS = 2000
local lost, is_reported, has_runs, is_over = {}, {}, {}, {}
local runs_searched = 0
local dead = {}

local function find_dead()
  dead = redis.call("ZRANGEBYSCORE", root .. ":workers", "-inf", now, "LIMIT", 0, 100)
end

local function is_lease_over(worker)
  if is_over[worker] == nil then
    local deadline = redis.call("ZSCORE", root .. ":workers", worker)
    is_over[worker] = deadline and tonumber(deadline) <= now or false
  end
  return is_over[worker]
end

-- Report the lost ones of these runs; return whether there was room for all.
local function report_lost(runs)
  for i = 1, #runs, 2 do
    local worker = string.match(runs[i + 1], "^%d+:%d+:%d+:([^:]*):")
    if worker and is_lease_over(worker) and not is_reported[runs[i]] then
      has_runs[worker] = true
      if #lost >= limit then
        return false
      end
      is_reported[runs[i]] = true
      lost[#lost + 1] = runs[i]
    end
  end
  return true
end

-- Search a type; return whether all its runs have been looked at.
local function search(job_type, q)
  if #dead == 0 then
    return true
  end
  local field = "type:" .. job_type
  local begun = redis.call("HGET", root .. ":search", field)
  local cursor = begun or "0"
  repeat
    local page = redis.call("HSCAN", q .. "active", cursor, "COUNT", 200)
    runs_searched = runs_searched + #page[2] / 2
    if not report_lost(page[2]) then
      -- The caller ends those that were reported; this page is looked at again.
      redis.call("HSET", root .. ":search", field, cursor)
      return false
    end
    cursor = page[1]
  until cursor == "0" or runs_searched >= RUNS_A_PASS
  if cursor ~= "0" then
    redis.call("HSET", root .. ":search", field, cursor)
  elseif begun then
    redis.call("HDEL", root .. ":search", field)
  end
  return cursor == "0"
end

-- Forget dead workers without runs; all types have been searched since `searched`.
local function forget_dead(searched)
  for worker in pairs(has_runs) do
    redis.call("HSET", root .. ":search", "worker:" .. worker, now)
  end
  for _, worker in ipairs(dead) do
    -- A worker that left has the time it did, below 0.
    local since = math.abs(redis.call("ZSCORE", root .. ":workers", worker))
    local found = tonumber(redis.call("HGET", root .. ":search", "worker:" .. worker)) or 0
    if not has_runs[worker] and math.max(since, found) < searched then
      redis.call("ZREM", root .. ":workers", worker)
      redis.call("HDEL", root .. ":info", worker)
      redis.call("HDEL", root .. ":orders", worker)
      redis.call("HDEL", root .. ":stacks", worker, worker .. ":at")
      redis.call("HDEL", root .. ":search", "worker:" .. worker)
    end
  end
end
