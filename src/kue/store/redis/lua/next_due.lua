#!lua flags=no-writes
--[[
  next_due: return when some types may have work, if no jobs are added.

  Called before a worker sleeps, so that a lost wake-up costs nothing, and so that it wakes
  when a delay, a pause or a rate limit ends.  Looks at the first job of each given type.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    then types

  Returns  {now, at, ready}: at is 0 if time alone brings no work; ready has the
           positions (from 0) of the types that have work
  Events   none
]]

--- @include lib/prelude
--- @include lib/limits

local soonest, ready = 0, {}
local function sooner(time, place)
  if time and (soonest == 0 or time < soonest) then
    soonest = time
  end
  if time and time <= now and ready[#ready] ~= place then
    ready[#ready + 1] = place
  end
end

-- Empty structures do not exist: one command checks all types.
local sets = {}
for at = 4, #ARGV do
  sets[#sets + 1] = queue(ARGV[at]) .. "waiting"
  sets[#sets + 1] = queue(ARGV[at]) .. "delayed"
  sets[#sets + 1] = queue(ARGV[at]) .. "opens"
end
if redis.call("EXISTS", unpack(sets)) == 0 then
  return { now, 0, ready }
end

local everything = redis.call("HGET", root .. ":paused", "")
for at = 4, #ARGV do
  local q = queue(ARGV[at])
  local due = tonumber(redis.call("ZRANGE", q .. "delayed", 0, 0, "WITHSCORES")[2])
  local all_paused, all_till = is_paused(everything)
  local paused, till = is_paused(redis.call("HGET", root .. ":paused", ARGV[at]))
  sooner(due, at - 4)
  sooner(tonumber(redis.call("ZRANGE", q .. "opens", 0, 0, "WITHSCORES")[2]), at - 4)
  local is_waiting = redis.call("ZCARD", q .. "waiting") > 0
  if is_waiting and (all_paused or paused) then
    if (not all_paused or all_till) and (not paused or till) then
      sooner(math.max(all_till or 0, till or 0), at - 4)
    end
  elseif is_waiting then
    local limits = read_limits(redis.call("HGET", root .. ":limits", ARGV[at]))
    local is_full = limits and limits.concurrency
      and redis.call("HLEN", q .. "active") >= limits.concurrency
    if not is_full then
      local left, free_at = 1, now
      if limits and limits.rate then
        left, free_at = rate_left(q, limits)
      end
      sooner(left < 1 and free_at or now, at - 4)
    end
  end
end
return { now, soonest, ready }
