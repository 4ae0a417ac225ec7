#!lua flags=no-writes
--[[
  get: read jobs, and where they are.

  Touches at most 500 jobs, and stops once it has read 1 MiB of them: the caller then
  asks for the rest.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    then ids

  Returns  for each job it came to: record, place, score or run, tries, progress,
           cancelling, what holds it; or an empty list if there is no such job
  Events   none
]]

--- @include lib/prelude
--- @include lib/record_header
--- @include lib/job_place
--- @include lib/limits

local answers, bytes = {}, 0
local MAX_BYTES = 1048576
local everything = redis.call("HGET", root .. ":paused", "")

-- Return the pause in force for a type as it was written; empty if none is.
local function pause_of(job_type)
  if is_paused(everything) then
    return everything
  end
  local pause = redis.call("HGET", root .. ":paused", job_type)
  return is_paused(pause) and pause or ""
end

-- Return which limit holds a job, how many run under it, when it lets one start, if it is a
-- rate, and its rule; empty if none does.
local function limit_that_holds(id, head)
  for _, ref in ipairs(head.limits or {}) do
    local name, key = string.match(ref, "^([^:]*):(.*)$")
    local prefix = root .. "::" .. (name or "") .. ":"
    if name and redis.call("ZSCORE", prefix .. "held:" .. key, id) then
      return table.concat({ ref, redis.call("ZCARD", prefix .. "running:" .. key),
        redis.call("ZSCORE", queue(head.type) .. "opens", ref) or "",
        redis.call("HGET", root .. ":named_limits", name) or "" }, "\t")
    end
  end
  return ""
end

-- Return what holds a waiting job back: a pause, or a limit.
local function hindrance(id, head, place)
  if place == "waiting" then
    return pause_of(head.type)
  end
  return place == "held" and limit_that_holds(id, head) or ""
end

for at = 4, #ARGV do
  if bytes >= MAX_BYTES then
    break
  end
  local id = ARGV[at]
  local record = redis.pcall("GET", job .. id)
  bytes = bytes + (type(record) == "string" and #record or 0)
  local head = type(record) == "string" and read_header(record)
  local place = head and place_of(id, queue(head.type))
  if not place then
    answers[#answers + 1] = {}
  else
    local q = queue(head.type)
    local where = redis.call(place == "active" and "HGET" or "ZSCORE", q .. place, id)
    answers[#answers + 1] = { record, place, where,
      redis.call("HGET", q .. "tries", id) or "",
      place == "active" and redis.call("HGET", q .. "progress", id) or "",
      redis.call("HEXISTS", root .. ":cancelling", id),
      hindrance(id, head, place) }
  end
end
return answers
