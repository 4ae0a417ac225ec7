-- Error groups: counts of failed jobs by error.  The history line of a failure ends with
-- the fingerprint of the error, and is the last one while the job is failed.
-- These are only counts: a key of the wrong Redis type must not keep a job from ending.
-- `kue doctor` reports it, and counts again.
local function fingerprint_in(text)
  return string.match(text, '"fingerprint":"(%x+)"}$', -29)
end

-- Count `count` more failed jobs, `id` the last of them; `tail` has their error.
local function add_failures(q, count, id, tail)
  local fingerprint = fingerprint_in(tail)
  if not fingerprint then
    return
  end
  local sum = redis.pcall("ZINCRBY", q .. "errors", count, fingerprint)
  if tonumber(sum) == count then
    redis.pcall("HSET", q .. "causes", fingerprint, now)
  end
  -- Quotes within JSON strings are escaped, so these cannot match inside one.
  local from = string.find(tail, '"error":{', 1, true) or 1
  local progress = string.find(tail, '},"progress":', from, true) or math.huge
  local to = math.min(string.find(tail, ',"stack":"', from, true) or math.huge, progress)
  local cause = to < math.huge and string.sub(tail, from + 8, to - 1) .. "}"
    or string.sub(tail, from + 8, -31)
  redis.pcall("HSET", q .. "causes", fingerprint .. ":last",
    now .. "\t" .. id .. "\t" .. cause)
end

-- Stop counting job `id` as failed; its record must not have changed yet.
local function remove_failure(q, id)
  local text = redis.pcall("GETRANGE", job .. id, -29, -1)
  local fingerprint = type(text) == "string" and fingerprint_in(text)
  local sum = fingerprint
    and tonumber(redis.pcall("ZINCRBY", q .. "errors", -1, fingerprint))
  if sum and sum <= 0 then
    redis.pcall("ZREM", q .. "errors", fingerprint)
    redis.pcall("HDEL", q .. "causes", fingerprint, fingerprint .. ":last")
  end
end
