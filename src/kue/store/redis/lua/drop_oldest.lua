#!lua flags=allow-oom
--[[
  drop_oldest: cancel waiting jobs of a type until no more wait than its cap allows.

  Those of the lowest priority go first, and of these the oldest; jobs that a limit holds
  back only when no others wait.  Touches at most MAX_DROPPED jobs, and 200 that wait for
  them (lib/dependants): the caller calls again.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  type    whose jobs are dropped

  Returns  how many are left to drop
  Events   cancelled, error
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/flow
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
--- @include lib/failures
--- @include lib/enter_state
--- @include lib/dependants

local MAX_DROPPED = 100
local job_type = ARGV[4]
local q, rule = queue(job_type), ranks.rule_of(job_type)
local drops = rule and rule.cap and rule.when_full == "drop-oldest"

local function over()
  return drops and redis.call("ZCARD", q .. "waiting") + redis.call("ZCARD", q .. "held")
    - rule.cap or 0
end

-- Add jobs of a structure to those to drop, priority by priority, until there are `most`.
local function find_oldest(place, dropped, most)
  local below = "+inf"
  while #dropped < most do
    local last = redis.call("ZREVRANGEBYSCORE", q .. place, below, "-inf", "WITHSCORES",
      "LIMIT", 0, 1)[2]
    if not last then
      return
    end
    local first = math.floor(tonumber(last) / ranks.LEVEL) * ranks.LEVEL
    for _, id in ipairs(redis.call("ZRANGEBYSCORE", q .. place, first, below,
      "LIMIT", 0, most - #dropped)) do
      dropped[#dropped + 1] = { id = id, place = place, head = header(id) }
    end
    below = "(" .. string.format("%.0f", first)
  end
end

local function drop(id, place, head)
  if not head then
    redis.call("ZREM", q .. place, id)
    redis.call("ZADD", q .. "parked", now, id)
    emit("error", id, job_type, 0, '{"message":"its record cannot be read"}')
    return
  end
  local tail = '"outcome":"cancelled","reason":"dropped: ' .. rule.cap
    .. ' jobs of its type wait, as many as its cap allows"}'
  depart(id, q, place, head)
  arrive_final(id, q, head, "cancelled", tail)
  emit("cancelled", id, job_type, 0, "{" .. tail)
  dependants.notify(id, "cancelled")
end

-- Check.
check_shard()
check_type(job_type)
local dropped, most = {}, math.min(MAX_DROPPED, over())
find_oldest("waiting", dropped, most)
find_oldest("held", dropped, most)
for _, one in ipairs(dropped) do
  if one.head then
    check_ties(one.id, one.head)
  end
end

-- Move.
for _, one in ipairs(dropped) do
  drop(one.id, one.place, one.head)
end

-- Publish.
publish()
return math.max(0, over())
