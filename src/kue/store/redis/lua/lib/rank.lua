-- The cap of a type, and the order in which its jobs start: their scores in `waiting`.
--
-- By default that is by priority, then first in, first out (`score`).  In a fair type the
-- groups take turns within each priority: start-time fair queueing.  Each job gets a virtual
-- time, a turn after the job of its group before it; a group that had none waiting begins
-- at the current virtual time, which is that of the first waiting job.  With ageing, jobs
-- start by the time at which they were ready, in µs, plus some time per step of priority.
--
-- `:limits` has "… max_waiting when_full full_timeout fair ageing weights"; see lib/limits.
local ranks = on_demand(function(ranks)
  -- Scores of one priority.
  ranks.LEVEL = 2199023255552
  -- Virtual time of one job of weight 1: many weights divide it.
  local TURN = 60
  local rules = {}

  -- Return the cap and order in the text of a type's limits; false if it has neither.
  function ranks.read_rule(text)
    local cap, when_full, fair, ageing, weights = string.match(text or "",
      "^%S+ %S+ %S+ %S+ (%S+) (%S+) %S+ (%S+) (%S+) (.*)$")
    if not cap or (cap == "-" and fair == "-" and ageing == "-") then
      return false
    end
    return { cap = tonumber(cap), when_full = when_full, fair = fair ~= "-",
      ageing = tonumber(ageing), weights = weights }
  end

  function ranks.rule_of(job_type)
    if rules[job_type] == nil then
      rules[job_type] = ranks.read_rule(redis.call("HGET", root .. ":limits", job_type))
    end
    return rules[job_type]
  end

  local function turn_of(rule, group)
    local _, at = string.find(rule.weights, "{" .. (group or "") .. "}", 1, true)
    local weight = at and tonumber(string.match(rule.weights, "^%d+", at + 1)) or 1
    return math.floor(TURN / math.max(1, weight))
  end

  -- Return the virtual time of one priority; `fair` has it, and when each group that has jobs
  -- waiting gets its next turn.
  local function turns_of(q, priority)
    local first = priority * ranks.LEVEL
    local last = first + ranks.LEVEL - 1
    local saved = redis.call("ZSCORE", q .. "fair", priority)
    local head = redis.call("ZRANGEBYSCORE", q .. "waiting", first, last, "WITHSCORES",
      "LIMIT", 0, 1)[2]
      or redis.call("ZREVRANGEBYSCORE", q .. "fair", last, first, "WITHSCORES",
      "LIMIT", 0, 1)[2]
    return { key = q .. "fair", priority = priority, first = first, last = last, next = {},
      now = math.max(first, tonumber(saved) or first, tonumber(head) or first) }
  end

  -- Return the score of the next job of a group.  One that ran before goes first, but its
  -- group pays for it with a turn.
  local function take_turn(turns, rule, group, ran_before)
    local member = turns.priority .. ":" .. (group or "")
    local at = turns.next[member] or tonumber(redis.call("ZSCORE", turns.key, member))
    at = math.max(at or turns.now, turns.now)
    turns.next[member] = math.min(at + turn_of(rule, group), turns.last)
    return ran_before and turns.now or at
  end

  -- Return the score with which a job enters `waiting`.  It may depend on those before it,
  -- which need not be written yet: `batch` is a table for all of a type, empty at first, and
  -- is written by `ranks.write`.
  function ranks.enter(id, q, head, batch)
    local rule, priority = ranks.rule_of(head.type), head.priority
    if rule and rule.ageing then
      -- In µs: there is one for each job of a call before the next call comes.
      batch.ready = (batch.ready or -1) + 1
      return micros + batch.ready + priority * rule.ageing * 1000
    elseif rule and rule.fair then
      batch.turns = batch.turns or {}
      local turns = batch.turns[priority] or turns_of(q, priority)
      batch.turns[priority] = turns
      local tries = not head.is_new and redis.call("HGET", q .. "tries", id)
      local ran_before = head.has_just_run or (tries and tries ~= "0:0")
      return take_turn(turns, rule, head.group, ran_before)
    end
    return score(priority, id)
  end

  -- Return what a score is worth beside those of types without an order of their own: with
  -- ageing the priority that was reached by now, in a fair type priority and age.
  function ranks.beside_others(rule, rank, id)
    if rule.ageing then
      return (rank / 1000 - now) / rule.ageing * ranks.LEVEL
    elseif rule.fair then
      return score(math.floor(rank / ranks.LEVEL), id)
    end
    return rank
  end

  function ranks.write(batch)
    for priority, one in pairs(batch.turns or {}) do
      local entries = { one.now, priority }
      for member, at in pairs(one.next) do
        entries[#entries + 1] = at
        entries[#entries + 1] = member
      end
      -- A group whose turn has come is as good as unknown.
      redis.call("ZREMRANGEBYSCORE", one.key, one.first, one.now)
      redis.call("ZADD", one.key, unpack(entries))
    end
  end
end)
