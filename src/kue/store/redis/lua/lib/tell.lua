-- Events of one call travel as one message, and only if someone listens.
-- Mostly nobody does, and one look tells.
local is_anybody = redis.call("EXISTS", root .. ":listeners", root .. ":watched") > 0
local heard = is_anybody and redis.call("ZCARD", root .. ":listeners") > 0
local watched = is_anybody and not heard and redis.call("ZCARD", root .. ":watched") > 0
local told = {}

local function tell(kind, id, job_type, attempt, detail)
  if heard or (watched and redis.call("ZSCORE", root .. ":watched", id)) then
    told[#told + 1] = table.concat(
      { kind, id, job_type, now, attempt, detail or "" }, "\t")
  end
end

local function publish()
  if #told > 0 then
    redis.call("SPUBLISH", root .. ":events", table.concat(told, "\n"))
  end
end
