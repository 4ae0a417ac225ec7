-- Drafts in the full form, and those of types with rules: each becomes an entry, which has
-- where its job goes.

-- Return the job that holds a unique key of the type, and where it is; nil if it is free.
local function holder(plan, key)
  if taken[plan.q .. key] then
    return taken[plan.q .. key]
  end
  return holder_of(plan.q, key)
end

local function new_id(plan, given)
  local id = given
  if given then
    reserved[math.floor(given / shards)] = true
    is_range = false
  else
    next_seq = next_seq + 1
    id = next_seq * shards + shard
  end
  records[#records + 1] = job .. id
  records[#records + 1] = ""
  answer[#answer + 1] = id
  plan.added = plan.added + 1
  return id
end

-- An existing job with its creation time; one of this call is not written yet.
local function answer_of(holder)
  local head = header(holder)
  return "!" .. holder .. "@" .. (head and head.created or now)
end

-- Return the entry of the holder of a unique key that a draft may replace; nil if none may.
local function replaceable(plan, id, place)
  local entry = entry_of[tostring(id)]
  if not entry then
    entry = replacing.entry(id, place)
    if entry then
      entry_of[tostring(id)] = entry
      entry.flow = entry.old.flow
      plan.special[#plan.special + 1] = entry
      records[#records + 1] = job .. id
      records[#records + 1] = ""
      entry.record = #records
    end
  end
  return entry and entry.state ~= "cancelled" and entry or nil
end

local function due_state(entry)
  return entry.due > now and "delayed" or "waiting"
end

-- Set where the job of an entry goes, and the parents that it waits for.
local function set_state(entry, tied)
  local is_released = false
  entry.open, entry.lost, entry.target = {}, nil, nil
  if tied then
    entry.target = tied.target ~= "" and tied.target
    entry.open, entry.lost, is_released = parents.sort(tied.parents, entry.policy, ended)
  end
  -- One that others come before may wait for nothing but those.
  if entry.lost and not (entry.target and #entry.open == 0 and entry.policy == "only") then
    entry.state = "cancelled"
  elseif is_released then
    entry.state = due_state(entry)
  elseif #entry.open > 0 or entry.target then
    entry.state, entry.lost = "blocked", nil
  else
    entry.state = due_state(entry)
  end
  if entry.target == "2" and entry.state == "blocked" then
    entry.open[#entry.open + 1] = "itself"
  end
end

-- Release a job that no draft of this call comes before after all.
local function end_target(entry)
  if entry.state ~= "blocked" or #entry.open > 0 then
    return
  end
  ended_targets[#ended_targets + 1] = entry
  if entry.policy ~= "only" then
    entry.state = due_state(entry)
    return
  end
  entry.state, entry.expires = "cancelled", nil
  entry.lost = "none of the jobs it waited for failed"
  entry.unique = entry.least ~= 0 and entry.unique or nil
end

-- Return the header of an entry's record before its creation time and after its type.
local function header_of(entry, left, options, tied)
  if tied and tied.has_refs then
    options = options .. "\tafter=" .. table.concat(tied.parents, ",")
  end
  if entry.flow then
    options = options .. "\tflow=" .. entry.flow
  end
  local is_marked = options == "" or string.sub(left, 1, 1) == "*"
  return is_marked and left or "*" .. left, options
end

-- Let the job of an entry have its unique key.
local function set_key(plan, entry, unique, unique_for, at_most)
  if unique == "" or (entry.lost and unique_for == "0") then
    return
  end
  local since = math.max(now, entry.created)
  taken[plan.q .. unique] = entry.id
  entry.unique = unique
  entry.least = unique_for == "0" and 0 or since + tonumber(unique_for)
  entry.most = at_most ~= "0" and since + tonumber(at_most) or nil
end

-- Return whether the cap of a type refuses a job that would wait.
local function is_refused(plan, entry)
  if not plan.room or entry.state ~= "waiting" then
    return false
  end
  plan.room = plan.room - 1
  return plan.room < 0 and plan.rule.when_full ~= "drop-oldest"
end

local function draft_full(plan, left, options, body, delay, due, unique, unique_for,
    at_most, replaces, expires, ties)
  local by, place, entry, tied = nil, nil, nil, nil
  if ties ~= "" then
    tied = read_ties(ties)
    if not tied then
      answer[#answer + 1] = "#"
      is_range = false
      return
    end
  end
  if unique ~= "" then
    by, place = holder(plan, unique)
    entry = by and replaces ~= "" and replaceable(plan, by, place)
    if by and not entry then
      answer[#answer + 1] = answer_of(by)
      is_range = false
      return
    end
  end
  due = tonumber(due) or (now + tonumber(delay))
  local policy = string.match(options, "\tfailure=(%a+)") or "block"
  if entry then
    if replaces ~= "0" then
      due = math.min(due, entry.created + tonumber(replaces))
    end
    entry.due, entry.policy = due, policy
    -- It waits for no others, whatever came before the job that it was.
    set_state(entry)
    left, options = header_of(entry, left, options)
    records[entry.record] = replacing.record(entry, left, plan.type, options, body)
    answer[#answer + 1] = "~" .. entry.id .. "@" .. entry.created
    is_range = false
  else
    entry = { created = now, due = due, policy = policy, history = "" }
    set_state(entry, tied)
    if is_refused(plan, entry) then
      answer[#answer + 1] = "#"
      is_range = false
      return
    end
    entry.id, entry.record = new_id(plan, tied and tied.id), #records
    if tied then
      entry.before, entry.joins = {}, {}
      for _, target in ipairs(tied.before) do
        put_before(entry, target)
      end
      if tied.flow then
        join_flow(entry, tied)
      end
      left, options = header_of(entry, left, options, tied)
    end
    records[entry.record] = left .. "\t" .. now .. "\t" .. plan.type .. options .. "\n" .. body
    plan.special[#plan.special + 1] = entry
    entry_of[tostring(entry.id)] = entry
  end
  entry.group = string.match(options, "\tgroup=([^\t]*)")
  entry.priority = tonumber(string.match(left, "%-?%d+"))
  entry.retention = string.match(options, "\tretention=(%d+)")
  entry.expires = expires ~= "0" and not entry.lost
    and math.max(now, entry.created) + tonumber(expires) or nil
  set_key(plan, entry, unique, unique_for, at_most)
  if by or has_listeners then
    new_jobs[#new_jobs + 1] = { id = entry.id, type = plan.type, state = entry.state,
      is_replaced = by }
  end
end

-- Enter a job into the lists of what is written: once no draft can replace it any more.
local function enter(plan, entry)
  local id = entry.id
  entry.type = plan.type
  if entry.target then
    end_target(entry)
  end
  if entry.state == "waiting" then
    entry.is_new = true
    table.insert(plan.waiting, plan.rule and ranks.enter(id, plan.q, entry, plan.batch)
      or score(entry.priority, id))
    table.insert(plan.waiting, id)
  elseif entry.state == "delayed" then
    table.insert(plan.delayed, entry.due)
    table.insert(plan.delayed, id)
  end
  if entry.expires then
    table.insert(plan.expires, entry.expires)
    table.insert(plan.expires, id)
  end
  if entry.unique then
    table.insert(plan.unique, entry.unique)
    table.insert(plan.unique, holding(id, entry.least, entry.most))
    if entry.lost or entry.most then
      table.insert(plan.lapse, entry.lost and entry.least or entry.most)
      table.insert(plan.lapse, entry.unique)
    end
  end
end
