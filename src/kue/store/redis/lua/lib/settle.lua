-- Settle runs of one type with the same ending: complete, fail, retry, requeue.
--   ending  complete | failed | cancelled | retry | released | stalled
--   delay   ms until the next run, for the last three
--   flags   s  some have a header with options (unique, group, ttl, …)
--           r  remove what completed
--           t  keep only the newest lines of the history
--           k  the attempt counts (released)
--           w  the job sleeps, or waits for a signal (released): the line ends with which
--           L  only if the worker's lease is over; T  only if the ttl is
-- ARGV from `first` on: id, token, end of the history line; `count` times.
-- Results other than "done" go into `words` as index, word.
local words, outcomes, ended = {}, 0, {}
local MAX_HISTORY = 20

-- Find which of the jobs that end have dependants: one command for the whole batch, so that
-- a few dependants do not slow down all jobs without any.
local is_parent = {}
local FEW_PARENTS = 50

local function find_parents(at, parents)
  local ids, few = {}, {}
  if parents <= FEW_PARENTS then
    for _, id in ipairs(redis.call("SMEMBERS", root .. ":parents")) do
      few[id] = true
    end
  end
  while ARGV[at] do
    local last = at + 2 + 3 * ARGV[at + 4]
    for i = at + 5, last, 3 do
      local id = ARGV[i]
      if parents > FEW_PARENTS or few[id] then
        ids[#ids + 1] = id
      end
    end
    at = last + 3
  end
  local hits = #ids > 0 and redis.call("SMISMEMBER", root .. ":parents", unpack(ids)) or {}
  for i, hit in ipairs(hits) do
    is_parent[ids[i]] = hit == 1 or nil
  end
end

-- Events of endings; their detail is the tail that the caller wrote.
local EVENT_OF = { complete = "complete", failed = "failed", cancelled = "cancelled",
  retry = "failed_attempt", released = "release", stalled = "release" }

local function emit_end(id, job_type, token, ending, tail, is_removed)
  local attempt = string.match(token, "^%d+:%d+:(%d+):")
  -- A result may be large, and must reach only those who ask for it; that of a job which
  -- is removed can be read nowhere else.  So may the progress, which comes last.
  local progress = string.find(tail, ',"progress":[', 1, true)
  tail = progress and string.sub(tail, 1, progress - 1) .. "}" or tail
  local detail = (ending ~= "complete" or is_removed) and "{" .. tail or ""
  emit(EVENT_OF[ending], id, job_type, attempt, detail)
end

-- What only some endings need.
local endings = on_demand(function(endings)
  function endings.why_not(id, token)
    local record = redis.pcall("GET", job .. id)
    if type(record) ~= "string" then
      return "gone"
    elseif ended[token] then
      return "already"
    end
    local _, last = string.find(record, '\n{"run":"' .. token .. '","at":', 1, true)
    -- Runs that maintenance ended are marked as taken: to their worker they are lost.
    if last and not string.find(record, '^%d+,"taken":', last + 1) then
      return "already"
    end
    return "lost"
  end

  function endings.is_overdue(id, q, token, flags)
    if string.find(flags, "L", 1, true) then
      local owner = string.match(token, "^%d+:%d+:%d+:([^:]*):")
      local deadline = redis.call("ZSCORE", root .. ":workers", owner)
      return not deadline or tonumber(deadline) <= now
    elseif string.find(flags, "T", 1, true) then
      local deadline = redis.call("ZSCORE", q .. "ttl", id)
      return deadline and tonumber(deadline) <= now
    end
    return true
  end

  -- Drop the oldest line of a suspension beyond those that are kept.
  local MAX_SUSPENSIONS = 3
  local function drop_suspension(lines)
    local found = {}
    for i = 3, #lines do
      if string.find(lines[i], '"suspended":"[^"]*"}$') then
        found[#found + 1] = i
      end
    end
    if #found > MAX_SUSPENSIONS then
      table.remove(lines, found[1])
    end
  end

  function endings.trim_history(id, is_suspended)
    local lines = {}
    for line in string.gmatch(redis.call("GET", job .. id), "[^\n]+") do
      lines[#lines + 1] = line
    end
    if is_suspended then
      drop_suspension(lines)
    end
    local kept = { lines[1], lines[2] }
    for i = math.max(3, #lines - MAX_HISTORY + 1), #lines do
      kept[#kept + 1] = lines[i]
    end
    redis.call("SET", job .. id, table.concat(kept, "\n"))
  end

  function endings.requeue(id, q, head, token, ending, due, flags, tries)
    local attempt = tonumber(string.match(token, "^%d+:%d+:(%d+):"))
    local stalls = tonumber(string.match(tries or "", ":(%d+)$") or 0)
    if ending == "stalled" then
      attempt, stalls = attempt - 1, stalls + 1
    elseif ending == "released" and not string.find(flags, "k", 1, true) then
      attempt = attempt - 1
    end
    redis.call("HSET", q .. "tries", id, attempt .. ":" .. stalls)
    if due then
      arrive_delayed(id, q, head, due)
    else
      -- Also if the run does not count as an attempt.
      head.has_just_run = true
      arrive_waiting(id, q, head)
    end
  end

  -- Cancel a job that was to be requeued, but that an operator asked to cancel.
  function endings.stop(id, q, head, token, between, asked)
    local tail = string.match(asked, "\t([^\t]*)") or '"outcome":"cancelled"}'
    depart(id, q, "active", head)
    redis.call("APPEND", job .. id, '\n{"run":"' .. token .. between .. tail)
    arrive_final(id, q, head, "cancelled")
    emit_end(id, head.type, token, "cancelled", tail)
    dependants.notify(id, "cancelled")
  end

  -- Count failures by error, with one call per error.
  function endings.count_failures(q, done, first)
    local counts, last = {}, {}
    for _, i in ipairs(done) do
      local at = first + 3 * i - 3
      local fingerprint = fingerprint_in(ARGV[at + 2])
      if fingerprint then
        counts[fingerprint], last[fingerprint] = (counts[fingerprint] or 0) + 1, at
      end
    end
    for fingerprint, count in pairs(counts) do
      add_failures(q, count, ARGV[last[fingerprint]], ARGV[last[fingerprint] + 2])
    end
  end
end)

local function settle(ending, job_type, delay, flags, first, count)
  local q = queue(job_type)
  local is_final = FINAL[ending]
  local with_header = not is_final or string.find(flags, "[sr]") ~= nil
  -- Check.
  local ids = {}
  for i = 1, count do
    ids[i] = ARGV[first + 3 * i - 3]
  end
  local held = redis.call("HMGET", q .. "active", unpack(ids))
  local tries = redis.call("EXISTS", q .. "tries") == 1
    and redis.call("HMGET", q .. "tries", unpack(ids)) or {}
  local extras = redis.call("EXISTS", q .. "tries", q .. "progress", root .. ":cancelling")
  local asked = not is_final and extras > 0
    and redis.call("HMGET", root .. ":cancelling", unpack(ids)) or {}
  local limited = redis.call("HEXISTS", root .. ":limits", job_type) == 1
  local heads, done, stopped, run_ms = {}, {}, {}, 0
  -- The time of runs that were started together is parsed once.
  local started, started_at
  for i = 1, count do
    local id, token = ids[i], ARGV[first + 3 * i - 2]
    local head = true
    if with_header then
      head = header(id)
    end
    -- The fencing token: a run that was replaced has another one.
    if held[i] == token and not ended[token] and head
      and (flags == "" or endings.is_overdue(id, q, token, flags)) then
      ended[token] = true
      heads[i] = head
      if asked[i] then
        stopped[#stopped + 1] = i
      else
        done[#done + 1] = i
      end
      -- Fence and start time have a fixed width until the year 2286.
      local start = string.sub(token, 18, 30)
      if start ~= started then
        started, started_at = start, tonumber(start)
      end
      run_ms = run_ms + math.max(0, now - started_at)
    else
      words[#words + 1] = outcomes + i - 1
      words[#words + 1] = endings.why_not(id, token)
    end
  end
  outcomes = outcomes + count

  -- Move.
  local before, between = '\n{"run":"', '","at":' .. now .. ","
  if string.find(flags, "L", 1, true) then
    between = between .. '"taken":"lease",'
  elseif string.find(flags, "T", 1, true) then
    between = between .. '"taken":"ttl",'
  end
  for _, i in ipairs(stopped) do
    endings.stop(ids[i], q, heads[i], ARGV[first + 3 * i - 2], between, asked[i])
  end
  if #done == 0 then
    return
  end
  -- As text: a number would be formatted again for each job.
  local gone, scores, stamp = {}, {}, string.format("%.0f", now)
  for n, i in ipairs(done) do
    local at = first + 3 * i - 3
    redis.call("APPEND", job .. ids[i], before .. ARGV[at + 1] .. between .. ARGV[at + 2])
    gone[n] = ids[i]
    scores[2 * n - 1], scores[2 * n] = stamp, ids[i]
  end
  redis.call("HDEL", q .. "active", unpack(gone))
  if extras > 0 then
    redis.call("HDEL", q .. "progress", unpack(gone))
    redis.call("HDEL", root .. ":cancelling", unpack(gone))
    if is_final then
      redis.call("HDEL", q .. "tries", unpack(gone))
    end
  end
  if is_final then
    redis.call("ZADD", q .. ending, unpack(scores))
  end
  if ending == "failed" then
    endings.count_failures(q, done, first)
    local tokens = {}
    for n, i in ipairs(done) do
      tokens[n] = ARGV[first + 3 * i - 2]
    end
    failures.report(job_type, gone, tokens)
  end
  if string.find(flags, "t", 1, true) then
    for _, id in ipairs(gone) do
      endings.trim_history(id, string.find(flags, "w", 1, true))
    end
  end
  if with_header then
    for _, i in ipairs(done) do
      local id, head = ids[i], heads[i]
      if head.ttl then
        redis.call("ZREM", q .. "ttl", id)
      end
      if head.group then
        free_slot(q, head.group)
      end
      if head.limits then
        named.leave(id, head)
      end
      if is_final then
        flows.count(id, head, ending, 1)
        free_unique(q, head, id)
        if head.retention then
          redis.call("ZADD", q .. "retain_" .. ending, now + head.retention, id)
        end
      else
        local due = delay > 0 and now + delay or nil
        local field = string.find(flags, "w", 1, true)
          and string.match(ARGV[first + 3 * i - 1], '"suspended":"([^"]*)"}$')
        if field then
          due = steps.suspend(id, field, delay)
        end
        endings.requeue(id, q, head, ARGV[first + 3 * i - 2], ending, due, flags, tries[i])
      end
    end
  end
  if limited and redis.call("ZCARD", q .. "waiting") > 0 then
    wake(q)
  end
  if ending == "complete" or ending == "failed" or ending == "retry" then
    local minute = root .. ":stats:" .. math.floor(now / 60000)
    if is_final then
      add_up(minute, job_type .. ":" .. ending, #done)
    end
    -- That of successful runs apart: their sum is kept forever (lib/roll_up_stats).
    add_up(minute, job_type .. (ending == "complete" and ":work_ms" or ":run_ms"), run_ms)
    redis.call("EXPIRE", minute, 90000)
  end
  -- Publish.
  local is_removed = string.find(flags, "r", 1, true) ~= nil
  if has_listeners or has_watched then
    for _, i in ipairs(done) do
      local at = first + 3 * i - 3
      emit_end(ids[i], job_type, ARGV[at + 1], ending, ARGV[at + 2], is_removed)
    end
  end
  if is_final and next(is_parent) then
    for _, id in ipairs(gone) do
      if is_parent[id] then
        dependants.notify(id, ending)
      end
    end
  end
  if is_removed then
    for _, i in ipairs(done) do
      erase(ids[i], q, ending, heads[i])
    end
  end
end
