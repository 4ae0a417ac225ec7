#!lua flags=allow-oom
--[[
  order_worker: leave an order for a worker, which it gets with its next heartbeat.

  Touches the orders of that worker: one per kind.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  its name
    5  order   a word
    6  lasts   ms until it expires

  Returns  "OK", or "GONE" if no such worker is alive
  Events   none
]]

--- @include lib/prelude

local worker, order, lasts = ARGV[4], ARGV[5], tonumber(ARGV[6])

-- Check.
local deadline = redis.call("ZSCORE", root .. ":workers", worker)
if not deadline or tonumber(deadline) <= now then
  return "GONE"
end
local orders = {}
local known = redis.call("HGET", root .. ":orders", worker) or ""
-- Bounded: with very long damaged text the search would take hours.
for word, till in string.gmatch(string.sub(known, 1, 1000), "(%a+)=(%d+)") do
  if word ~= order then
    orders[#orders + 1] = word .. "=" .. till
  end
end

-- Move.
orders[#orders + 1] = order .. "=" .. string.format("%.0f", now + lasts)
redis.call("HSET", root .. ":orders", worker, table.concat(orders, " "))
return "OK"
