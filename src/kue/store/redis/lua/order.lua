#!lua flags=allow-oom
--[[
  order: have a worker do something when it next renews.

  Touches what that worker is to do: one entry for each kind of order.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  who
    5  order   what: a word
    6  lasts   ms after which it is told no more

  Returns  "OK", or "GONE" if no such worker lives
  Events   none
]]

--- @include lib/start

local worker, order, lasts = ARGV[4], ARGV[5], tonumber(ARGV[6])

-- Check.
local deadline = redis.call("ZSCORE", root .. ":workers", worker)
if not deadline or tonumber(deadline) <= now then
  return "GONE"
end
local orders = {}
local known = redis.call("HGET", root .. ":orders", worker) or ""
-- A search through very many letters that are none of ours would take hours.
for word, till in string.gmatch(string.sub(known, 1, 1000), "(%a+)=(%d+)") do
  if word ~= order then
    orders[#orders + 1] = word .. "=" .. till
  end
end

-- Move.
orders[#orders + 1] = order .. "=" .. string.format("%.0f", now + lasts)
redis.call("HSET", root .. ":orders", worker, table.concat(orders, " "))
return "OK"
