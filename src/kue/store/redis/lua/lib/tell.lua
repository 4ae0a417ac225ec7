-- Events of one call travel as one message, and only if someone listens.
-- Mostly nobody does, and one look tells.  Messages are numbered: Redis may lose some, as
-- when a listener is at a node that another has taken over from.
local is_anybody = redis.call("EXISTS", root .. ":listeners", root .. ":watched") > 0
local heard = is_anybody and redis.call("ZCARD", root .. ":listeners") > 0
local watched = is_anybody and not heard and redis.call("ZCARD", root .. ":watched") > 0
local number = is_anybody and tonumber(redis.call("HGET", root .. ":meta", "told")) or 0
local told = {}

local function tell(kind, id, job_type, attempt, detail)
  if heard or (watched and redis.call("ZSCORE", root .. ":watched", id)) then
    told[#told + 1] = table.concat(
      { kind, id, job_type, now, attempt, detail or "" }, "\t")
  end
end

local function publish()
  if #told > 0 then
    -- One that is no number begins again.
    local whole = string.format(WHOLE, number < 2 ^ 53 and number + 1 or 1)
    redis.call("HSET", root .. ":meta", "told", whole)
    redis.call("SPUBLISH", root .. ":events", whole .. "\n" .. table.concat(told, "\n"))
  end
end
