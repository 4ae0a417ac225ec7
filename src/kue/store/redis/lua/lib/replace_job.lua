-- Replace a job that has not started with another draft: id, creation time, log, dependants
-- and the newest lines of its history stay, everything else is the new draft's: it has done
-- no steps, received no signals and sent no chunks.
local MAX_LINES, MAX_TAIL = 20, 8192
local WINDOWS = { expires = true, unique_for = true, unique_at_most = true }

-- Return the history of a job without a last line "replaced": many adds leave one line.
local function history_of(id)
  local tail, lines = redis.call("GETRANGE", job .. id, -MAX_TAIL, -1), {}
  local from = string.find(tail, '\n{"run":', 1, true)
  for line in string.gmatch(from and string.sub(tail, from) or "", "[^\n]+") do
    lines[#lines + 1] = line
  end
  if string.match(lines[#lines] or "", '^{"run":"","at":%d+,"outcome":"replaced"') then
    lines[#lines] = nil
  end
  while #lines >= MAX_LINES do
    table.remove(lines, 1)
  end
  return #lines > 0 and "\n" .. table.concat(lines, "\n") or ""
end

-- Return the options of a header with times that count from now, not from the creation.
local function from_now(options, created)
  local age = math.max(0, now - created)
  return (string.gsub(options, "\t([a-z_]+)=(%d+)", function(name, value)
    return WINDOWS[name] and "\t" .. name .. "=" .. string.format("%.0f", value + age) or nil
  end))
end

-- Return the stored job `id` as an entry of this call; nil if it cannot be replaced.
local REPLACED = { waiting = true, delayed = true, held = true, blocked = true }
local function stored_entry(id, place)
  local head = REPLACED[place] and header(id)
  if not head then
    return nil
  end
  check_shard()
  check_job(id, head)
  return { id = id, created = head.created, place = place, old = head,
    history = history_of(id) }
end

-- Return the record of the job that an entry of this call becomes.
local function replaced_record(entry, left, job_type, options, body)
  local delay = entry.due > now and ',"delay":' .. string.format("%.0f", entry.due - now) or ""
  return left .. "\t" .. entry.created .. "\t" .. job_type
    .. from_now(options, entry.created) .. "\n" .. body .. entry.history
    .. '\n{"run":"","at":' .. now .. ',"outcome":"replaced"' .. delay .. "}"
end

-- Take the job out of the structures that it is in.
local function take_out(q, entry)
  depart(entry.id, q, entry.place, entry.old)
  redis.call("HDEL", q .. "tries", entry.id)
  redis.call("ZREM", q .. "expires", entry.id)
  redis.call("UNLINK", job .. entry.id .. ":steps", job .. entry.id .. ":stream")
end
