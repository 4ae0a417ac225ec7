-- Named limits: rates and concurrency that jobs of any type share, by name and key.
-- The header of a job lists those that it counts against; their rules are in
-- `:named_limits`.  A job over one of them is held: it leaves `waiting` until a run ends, or
-- until the rate allows one more start, for which `opens` of its type has the time.
-- The arithmetic of rates is that of `RateLevel` in Python.
local named = on_demand(function(named)
  local WINDOW_PARTS = 100
  -- The most jobs that one call requeues because the time of a rate has come, and the most
  -- limits that it looks at for them.
  local MAX_OPENED, MAX_OPENINGS = 200, 100
  -- By name; by "name:key", as is how many jobs this call has released.
  local rules, levels, released = {}, {}, {}

  -- Return a limit by "name:key": where its structures are.
  function named.limit_of(ref)
    local name, key = string.match(ref, "^([^:]*):(.*)$")
    name, key = name or "", key or ""
    local prefix = root .. "::" .. name .. ":"
    return { ref = ref, name = name, key = key, keys = prefix .. "keys",
      held = prefix .. "held:" .. key, running = prefix .. "running:" .. key,
      rate = prefix .. "rate:" .. key }
  end

  -- Return the limits that a job counts against.
  function named.limits_of(head)
    if not head.named then
      head.named = {}
      for i, ref in ipairs(head.limits or {}) do
        head.named[i] = named.limit_of(ref)
      end
    end
    return head.named
  end

  -- Return the rule of a limit; false if there is none, or none that can be read.
  local function rule_of(name)
    if rules[name] == nil then
      local text = redis.call("HGET", root .. ":named_limits", name) or ""
      local most, rate, per, burst = string.match(text, "^(%S+) (%S+) (%S+) (%S+)\t")
      most, rate, per = tonumber(most), tonumber(rate), tonumber(per)
      rules[name] = (most or (rate and per))
        and { concurrency = most, rate = rate, per = per, burst = tonumber(burst),
          part = math.max(1, math.ceil((per or 1) / WINDOW_PARTS)) } or false
    end
    return rules[name]
  end

  -- Fill in the starts that still count in the sliding window of a rate.
  local function read_window(level, rule, text)
    level.left, level.starts = rule.rate, {}
    local starts = string.sub(text, 1, 1) == "w" and text or ""
    for at, count in string.gmatch(starts, "(%d+):(%d+)") do
      at, count = tonumber(at), tonumber(count)
      -- Far in the future: the clock was set back.
      if at + rule.part - 1 > now - rule.per and at <= now + rule.per then
        level.starts[#level.starts + 1] = { at, count }
        level.left = level.left - count
      end
    end
  end

  -- Fill in how full the token bucket of a rate is; one start costs `per`.
  local function read_bucket(level, rule, text)
    local most = rule.burst * rule.per
    local tokens, at = string.match(text, "^b(%d+):(%d+)$")
    tokens, at = tonumber(tokens), tonumber(at)
    if not tokens or at > now + most / rule.rate then
      level.tokens = most
    else
      level.tokens = math.min(most, tokens + math.max(0, now - at) * rule.rate)
    end
    level.left = math.floor(level.tokens / rule.per)
  end

  -- Return how many more may start under a limit in this call, as `left`.  Reads all its
  -- structures: one of the wrong Redis type must stop the script before it writes.
  local function level_of(limit)
    local level = levels[limit.ref]
    if not level then
      local rule = rule_of(limit.name)
      level = { limit = limit, rule = rule, picked = 0, left = math.huge }
      redis.call("SCARD", limit.keys)
      redis.call("ZCARD", limit.held)
      local running = redis.call("ZCARD", limit.running)
      local text = redis.call("GET", limit.rate) or ""
      if rule and rule.concurrency then
        level.left = rule.concurrency - running
      elseif rule and rule.burst then
        read_bucket(level, rule, text)
      elseif rule then
        read_window(level, rule, text)
      end
      levels[limit.ref] = level
    end
    return level
  end

  -- Return when a rate lets the next job start after what was picked; nil if time does not
  -- help.
  local function opens_at(level)
    local rule = level.rule
    if not rule or rule.concurrency then
      return nil
    elseif rule.burst then
      local tokens = level.tokens - level.picked * rule.per
      return now + math.ceil((rule.per - tokens) / rule.rate)
    end
    local first = level.starts[1] and level.starts[1][1] or now - now % rule.part
    return first + rule.part - 1 + rule.per
  end

  -- Return the first limit that does not let a job start; nil if all do.
  function named.full(head)
    for _, limit in ipairs(named.limits_of(head)) do
      if level_of(limit).left < 1 then
        return limit
      end
    end
    return nil
  end

  -- Count a job as starting under its limits.
  function named.pick(head)
    for _, limit in ipairs(named.limits_of(head)) do
      local level = level_of(limit)
      level.left, level.picked = level.left - 1, level.picked + 1
    end
  end

  -- Note that a job runs under its limits.
  function named.enter(id, head)
    for _, limit in ipairs(named.limits_of(head)) do
      redis.call("ZADD", limit.running, now, id)
      redis.call("SADD", limit.keys, limit.key)
    end
  end

  -- Return the state of a window after what was picked, and how long it matters.
  local function window_text(level, rule)
    local began, starts, parts = now - now % rule.part, level.starts, {}
    local last = starts[#starts]
    if last and last[1] >= began then
      last[2] = last[2] + level.picked
    else
      starts[#starts + 1] = { began, level.picked }
    end
    for i, start in ipairs(starts) do
      parts[i] = string.format("%.0f:%.0f", start[1], start[2])
    end
    return "w" .. table.concat(parts, ","), rule.per + rule.part
  end

  -- Write how far rates are spent by what was picked.
  function named.spend()
    for _, level in pairs(levels) do
      local rule = level.rule
      if level.picked > 0 and rule and rule.rate then
        local text, kept
        if rule.burst then
          local tokens = level.tokens - level.picked * rule.per
          text, kept = string.format("b%.0f:%.0f", tokens, now),
            rule.burst * rule.per / rule.rate
        else
          text, kept = window_text(level, rule)
        end
        -- A minute longer: tests give the time, and it may pass more slowly than here.
        redis.call("SET", level.limit.rate, text, "PX", math.ceil(kept) + 60000)
      end
    end
  end

  -- A limit lists a key as long as jobs run or are held under it.
  local function forget_key(limit)
    if redis.call("EXISTS", limit.running, limit.held) == 0 then
      redis.call("SREM", limit.keys, limit.key)
    end
  end

  -- Hold a job that a limit does not let start.
  function named.hold(id, q, limit, rank)
    redis.call("ZADD", q .. "held", rank, id)
    redis.call("ZADD", limit.held, rank, id)
    redis.call("SADD", limit.keys, limit.key)
    local at = opens_at(level_of(limit))
    if at then
      redis.call("ZADD", q .. "opens", at, limit.ref)
    end
  end

  -- Requeue the best of the jobs that a limit holds, as many as it lets start, at most
  -- `most`; return how many.  Too many do no harm: the claim that looks at them holds them
  -- again.
  function named.release(limit, most)
    local done = released[limit.ref] or 0
    most = math.min(most, level_of(limit).left - done)
    local best = most > 0 and redis.call("ZRANGE", limit.held, 0, most - 1, "WITHSCORES")
      or {}
    for i = 1, #best, 2 do
      local id, head = best[i], header(best[i])
      -- It may be of another type, which this script has not checked yet.
      if not head or pcall(check_type, head.type) then
        redis.call("ZREM", limit.held, id)
        if head and redis.call("ZREM", queue(head.type) .. "held", id) == 1 then
          redis.call("ZADD", queue(head.type) .. "waiting", best[i + 1], id)
          wake(queue(head.type))
        end
      end
    end
    if #best > 0 then
      forget_key(limit)
    end
    released[limit.ref] = done + #best / 2
    return #best / 2
  end

  -- Each limit of a job may let one more start.
  function named.release_each(head)
    for _, limit in ipairs(named.limits_of(head)) do
      if redis.call("EXISTS", limit.held) == 1 then
        named.release(limit, 1)
      end
    end
  end

  -- A job that waited does not start: another one may, also if this call had released it.
  function named.offer(head)
    for _, limit in ipairs(named.limits_of(head)) do
      released[limit.ref] = math.max(0, (released[limit.ref] or 0) - 1)
    end
    named.release_each(head)
  end

  -- A run ended: its limits may let others start.
  function named.leave(id, head)
    for _, limit in ipairs(named.limits_of(head)) do
      redis.call("ZREM", limit.running, id)
      levels[limit.ref] = nil
      forget_key(limit)
    end
    named.release_each(head)
  end

  -- A job is no longer held by any of its limits.
  function named.unhold(id, head)
    for _, limit in ipairs(named.limits_of(head)) do
      if redis.call("ZREM", limit.held, id) == 1 then
        forget_key(limit)
      end
    end
  end

  -- Requeue jobs of a type that rates held back until now; note when the next may start.
  function named.release_opened(q)
    local left = MAX_OPENED
    for _, ref in ipairs(redis.call("ZRANGEBYSCORE", q .. "opens", "-inf", now, "LIMIT", 0,
      MAX_OPENINGS)) do
      local limit = named.limit_of(ref)
      local level = level_of(limit)
      left = left - named.release(limit, left)
      local at = opens_at(level)
      if redis.call("EXISTS", limit.held) == 0 or (level.rule and not at) then
        redis.call("ZREM", q .. "opens", ref)
      else
        -- As if all of them start now; if not, the next claim finds them waiting.
        local is_open = (released[ref] or 0) < level.left
        redis.call("ZADD", q .. "opens", is_open and now or at, ref)
      end
    end
  end
end)
