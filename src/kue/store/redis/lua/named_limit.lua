#!lua flags=allow-oom
--[[
  named_limit: set or delete the rule of a named limit, and requeue jobs it held.

  A caller that names all keys of the limit, some in each call, requeues as many jobs as the
  new rule lets start.  Touches at most MAX_KEYS keys and MAX_FREED jobs of each.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  name    of the limit
    5  rule    "concurrency rate per burst", "-" for none, a tab, and the declared rule or
               nothing; empty to delete it
    then keys of the limit

  Returns  the keys that have more jobs to requeue
  Events   none
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/named_limits

local name, text = ARGV[4], ARGV[5]
local MAX_KEYS, MAX_FREED = 20, 50

-- Check.
check_shard()
local refs = {}
for at = 6, math.min(#ARGV, 5 + MAX_KEYS) do
  refs[#refs + 1] = name .. ":" .. ARGV[at]
end
check_limits(refs)

-- Move.
if text == "" then
  redis.call("HDEL", root .. ":named_limits", name)
else
  redis.call("HSET", root .. ":named_limits", name, text)
end
local more = {}
for _, ref in ipairs(refs) do
  local limit = named.limit_of(ref)
  if named.release(limit, MAX_FREED) == MAX_FREED then
    more[#more + 1] = limit.key
  end
  -- If it has become a rate, types need to know when it lets the next job start.
  local is_rate = string.sub(text, 1, 2) == "- "
  for _, id in ipairs(is_rate and redis.call("ZRANGE", limit.held, 0, MAX_FREED - 1) or {}) do
    local head = header(id)
    if head and pcall(check_type, head.type) then
      redis.call("ZADD", queue(head.type) .. "opens", "NX", now, ref)
    end
  end
end
return more
