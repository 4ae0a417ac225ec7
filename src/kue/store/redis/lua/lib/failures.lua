-- Failures to report: jobs that failed for good, of types that have a rule or while there is
-- one for all types, are entered in `:failures`.  So are jobs of a task that waited in another
-- queue, while there is any rule: it may be that of the task.  A worker reads them from there,
-- and adds the jobs that report them.  A rule of the wrong Redis type must not keep a job from
-- ending; `kue doctor` reports it.
local failures = on_demand(function(failures)
  local RESERVED = "kue."

  -- Bytes of a record that are searched for a task.
  local MAX_SEARCHED = 16384

  -- Return whether a job's record may name its task: it does, looks like it, or is too large
  -- to be searched.  A worker forgets those that there is no rule for.
  local function may_have_task(id)
    local size = redis.pcall("STRLEN", job .. id)
    return type(size) == "number" and (size > MAX_SEARCHED
      or string.find(redis.call("GET", job .. id) or "", '"task":"', 1, true))
  end

  -- Enter jobs of a type; `tokens` are those of their runs, none if they did not run.
  function failures.report(job_type, ids, tokens)
    if string.sub(job_type, 1, #RESERVED) == RESERVED then
      return
    end
    local rules = redis.pcall("HMGET", root .. ":failure_rules", job_type, "")
    if rules.err then
      return
    end
    local is_ruled = rules[1] or rules[2]
    if not is_ruled and redis.call("EXISTS", root .. ":failure_rules") == 0 then
      return
    end
    local entries, stamp = {}, string.format("%.0f", now)
    for i, id in ipairs(ids) do
      if is_ruled or may_have_task(id) then
        entries[#entries + 1] = stamp
        entries[#entries + 1] = id .. ":" .. job_type .. ":" .. stamp .. ":" .. (tokens[i] or "")
      end
    end
    if #entries == 0 then
      return
    end
    redis.call("ZADD", root .. ":failures", unpack(entries))
    request_maintenance(SHARD)
  end

  -- Return kind and message of an error in a history line, as one JSON text without quotes.
  -- Quotes within JSON strings are escaped, so what ends a string is not found inside one.
  local function error_in(line)
    local _, from = string.find(line, '"outcome":"%a+","error":{"kind":"')
    local kind_end, message = string.find(line, '","message":"', from or 1, true)
    if not from or not kind_end then
      return nil
    end
    local to = string.find(line, '"', message + 1, true)
    while to and string.match(string.sub(line, message + 1, to - 1), "\\*$"):len() % 2 == 1 do
      to = string.find(line, '"', to + 1, true)
    end
    return to and string.sub(line, from + 1, kind_end - 1) .. ": "
      .. string.sub(line, message + 1, to - 1)
  end

  -- Return the end of the history line of an expired job.  `tails`: that of one without an
  -- error, a tab, and that of one that had an error, which replaces "%s" in it.
  function failures.expired_line(id, q, tails)
    local plain, retried = string.match(tails, "^(.*)\t(.*)$")
    -- Most have not run: their records, which may be large, are not read.
    if redis.call("HEXISTS", q .. "tries", id) == 0 then
      return plain
    end
    local number, last = 0, nil
    for line in string.gmatch(redis.call("GET", job .. id) or "", "[^\n]+") do
      number = number + 1
      if number > 2 then
        local is_fresh = string.find(line, '"outcome":"restarted"', 1, true)
          or string.find(line, '"outcome":"replaced"', 1, true)
        last = error_in(line) or not is_fresh and last or nil
      end
    end
    if not last then
      return plain
    end
    local at = string.find(retried, "%s", 1, true)
    return string.sub(retried, 1, at - 1) .. last .. string.sub(retried, at + 2)
  end
end)
