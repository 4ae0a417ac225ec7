-- What failed jobs failed of, counted.  The line of a story that says so ends with the
-- fingerprint of the error, and is the last while the job is failed.
-- These are sums and no jobs: a key of the wrong Redis type must not keep a job from
-- ending.  The doctor tells of it, and counts again.
local function fingerprint_in(text)
  return string.match(text, '"fingerprint":"(%x+)"}$', -29)
end

-- `count` more jobs failed as `tail` says, `id` the last of them.
local function blame(q, count, id, tail)
  local mark = fingerprint_in(tail)
  if not mark then
    return
  end
  local sum = redis.pcall("ZINCRBY", q .. "errors", count, mark)
  if tonumber(sum) == count then
    redis.pcall("HSET", q .. "causes", mark, now)
  end
  -- Within a JSON text no quote is bare, so these are where they seem to be.
  local from = string.find(tail, '"error":{', 1, true) or 1
  local to = string.find(tail, ',"stack":"', from, true)
  local cause = to and string.sub(tail, from + 8, to - 1) .. "}"
    or string.sub(tail, from + 8, -31)
  redis.pcall("HSET", q .. "causes", mark .. ":last", now .. "\t" .. id .. "\t" .. cause)
end

-- Job `id` is no longer to count as failed; its record is as it was.
local function forgive(q, id)
  local text = redis.pcall("GETRANGE", job .. id, -29, -1)
  local mark = type(text) == "string" and fingerprint_in(text)
  local sum = mark and tonumber(redis.pcall("ZINCRBY", q .. "errors", -1, mark))
  if sum and sum <= 0 then
    redis.pcall("ZREM", q .. "errors", mark)
    redis.pcall("HDEL", q .. "causes", mark, mark .. ":last")
  end
end
