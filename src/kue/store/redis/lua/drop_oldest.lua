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
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
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

-- Return the oldest jobs of the lowest priority, at most `most`, and where they are.
local function oldest(most)
  local place = redis.call("EXISTS", q .. "waiting") == 1 and "waiting" or "held"
  local last = redis.call("ZRANGE", q .. place, -1, -1, "WITHSCORES")[2]
  local first = math.floor(tonumber(last) / ranks.LEVEL) * ranks.LEVEL
  return redis.call("ZRANGEBYSCORE", q .. place, first, "+inf", "LIMIT", 0, most), place
end

local function drop(id, place)
  local head = header(id)
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
  notify_dependants(id, "cancelled")
end

-- Check.
check_shard()
check_type(job_type)
local left = math.min(MAX_DROPPED, over())
while left > 0 do
  local ids, place = oldest(left)
  for _, id in ipairs(ids) do
    local head = header(id)
    if head then
      check_ties(id, head)
    end
  end
  -- Move.
  for _, id in ipairs(ids) do
    drop(id, place)
  end
  left = left - #ids
end

-- Publish.
publish()
return math.max(0, over())
