-- Failures to report: jobs that failed for good, of types that have a rule or while there is
-- one for all types, are entered in `:failures`.  A worker reads them from there, and adds
-- the jobs that report them.  A rule of the wrong Redis type must not keep a job from
-- ending; `kue doctor` reports it.
local RESERVED = "kue."

-- Enter jobs of a type; `tokens` are those of their runs, none if they did not run.
local function report_failures(job_type, ids, tokens)
  if string.sub(job_type, 1, #RESERVED) == RESERVED then
    return
  end
  local rules = redis.pcall("HMGET", root .. ":failure_rules", job_type, "")
  if rules.err or not (rules[1] or rules[2]) then
    return
  end
  local entries, stamp = {}, string.format("%.0f", now)
  for i, id in ipairs(ids) do
    entries[2 * i - 1] = stamp
    entries[2 * i] = id .. ":" .. job_type .. ":" .. stamp .. ":" .. (tokens[i] or "")
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
local function expired_line(id, tails)
  local plain, retried = string.match(tails, "^(.*)\t(.*)$")
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
