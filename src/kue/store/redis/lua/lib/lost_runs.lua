-- Lost runs: find the runs of workers whose lease is over, in the types that a pass
-- looks at, RUNS_PER_PASS runs at most.  `limit` is the script's: how many it may report;
-- verbs/maintenance.py requeues their jobs.
-- `:search` has where the search in a type continues and when it began, and when a run of a
-- worker was last found: a worker is forgotten once every type was searched since then.  A
-- type's entry in the agenda is at most LOOK_MS after the start of its last full search.
-- An unregistered worker is lost, too: once a minute all runs are searched for those.
local RUNS_PER_PASS = 2000
local lost, runs_searched = {}, 0
local find_dead, search, forget_dead

-- A script may have 200 local names: those of this block end with it.
do
local FULL_SEARCH_MS = 60000
local is_reported, has_runs, is_over, is_known = {}, {}, {}, {}
local dead, is_full_search = {}, false

find_dead = function(swept)
  dead = redis.call("ZRANGEBYSCORE", root .. ":workers", "-inf", now, "LIMIT", 0, 100)
  is_full_search = math.floor(now / FULL_SEARCH_MS) ~= math.floor(swept / FULL_SEARCH_MS)
end

local function is_lease_over(worker)
  if is_over[worker] == nil then
    local deadline = redis.call("ZSCORE", root .. ":workers", worker)
    is_known[worker] = deadline and true
    is_over[worker] = not deadline or tonumber(deadline) <= now
  end
  return is_over[worker]
end

-- Report the lost ones of these runs; return false if there are more than `limit`.
local function report_lost(runs)
  for i = 1, #runs, 2 do
    local worker = string.match(runs[i + 1], "^%d+:%d+:%d+:([^:]*):")
    if worker and is_lease_over(worker) and not is_reported[runs[i]] then
      has_runs[worker] = is_known[worker] or nil
      if #lost >= limit then
        return false
      end
      is_reported[runs[i]] = true
      lost[#lost + 1] = runs[i]
    end
  end
  return true
end

-- Return where a search continues and when it began; a new one begins now.
local function begin_search(field)
  local saved = redis.call("HGET", root .. ":search", field)
  local cursor, begun = string.match(saved or "", "^(%d+):(%d+)$")
  if not begun or tonumber(begun) > now then
    return "0", now, saved
  end
  return cursor, tonumber(begun), saved
end

-- Search a type; return since when all its runs have been searched, false if some are left.
search = function(job_type, q)
  local field = "type:" .. job_type
  local cursor, begun, saved = begin_search(field)
  if #dead == 0 and not is_full_search and not saved then
    return math.huge
  end
  repeat
    local page = redis.call("HSCAN", q .. "active", cursor, "COUNT", 200)
    runs_searched = runs_searched + #page[2] / 2
    if not report_lost(page[2]) then
      -- The caller ends those that were reported; this page is then searched again.
      redis.call("HSET", root .. ":search", field, cursor .. ":" .. begun)
      return false
    end
    cursor = page[1]
  until cursor == "0" or runs_searched >= RUNS_PER_PASS
  if cursor ~= "0" then
    redis.call("HSET", root .. ":search", field, cursor .. ":" .. begun)
    return false
  elseif saved then
    redis.call("HDEL", root .. ":search", field)
  end
  return #dead > 0 and begun < now and begun or math.huge
end

-- Forget dead workers without runs; all types have been searched since `searched`.
forget_dead = function(searched)
  for worker in pairs(has_runs) do
    redis.call("HSET", root .. ":search", "worker:" .. worker, now)
  end
  for _, worker in ipairs(dead) do
    -- The deadline of a worker that left is the time it did, negated.
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
end
