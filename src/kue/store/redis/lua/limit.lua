#!lua flags=allow-oom
--[[
  limit: set the limits of a type, and requeue jobs that were held because of the old ones.

  A held job becomes waiting whatever the new limit is: the next claim holds it again if it
  must, which is simpler to prove right than to decide here.  Touches MAX_FREED jobs at
  most; maintenance continues with the rest.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  type    that is limited
    5  limits  as in lib/limits and lib/rank; empty for no limits

  Returns  "OK" | "REORDER": the caller has to call `reorder` with all waiting jobs
  Events   none
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/named_limits
--- @include lib/rank

local job_type, limits = ARGV[4], ARGV[5]
local q = queue(job_type)
-- Held jobs released in one call; maintenance continues with the rest.
local MAX_FREED = 1000

local function rate_of(text)
  return string.match(text, "^%S+ (%S+ %S+)")
end

-- Check.
check_shard()
check_type(job_type)
local held = redis.call("ZRANGE", q .. "held", 0, MAX_FREED - 1, "WITHSCORES")
local old = redis.call("HGET", root .. ":limits", job_type) or ""
local before, after = ranks.read_rule(old) or {}, ranks.read_rule(limits) or {}

for i = 1, #held, 2 do
  local head = header(held[i])
  if head and head.group then
    redis.call("ZCARD", q .. "held:" .. head.group)
  end
  if head and head.limits then
    check_limits(head.limits)
  end
end

-- Move.
if limits == "" then
  redis.call("HDEL", root .. ":limits", job_type)
else
  redis.call("HSET", root .. ":limits", job_type, limits)
end
if rate_of(old) ~= rate_of(limits) then
  redis.call("DEL", q .. "rate")
end
if not after.fair then
  redis.call("UNLINK", q .. "fair")
end
for i = 1, #held, 2 do
  redis.call("ZREM", q .. "held", held[i])
  local head = header(held[i])
  if head and head.group then
    redis.call("ZREM", q .. "held:" .. head.group, held[i])
  end
  if head then
    named.unhold(held[i], head)
  end
  redis.call("ZADD", q .. "waiting", held[i + 1], held[i])
end
if redis.call("ZCARD", q .. "waiting") > 0 then
  wake(q)
end
-- A fair type goes on with jobs as they are.
local is_other = before.ageing ~= after.ageing or (before.fair and not after.fair)
return is_other and "REORDER" or "OK"
