#!lua flags=allow-oom
--[[
  renew: a worker says that it lives.

  Late is fine: until a run was taken back it is the worker's.  But for orders nothing is
  remembered for the worker to fetch: what it must hear follows from what is so, and so a
  lost reply loses nothing else.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  who
    5  lease   ms that its lease runs from now
    6  info    JSON it says of itself, or empty
    7  orders  1 to be told of orders, and have them forgotten; else empty
    then for each run to check: type, id, token

  Returns  {lost, cancel, pause, orders}: ids of given runs that are no longer the worker's; of its
           runs that someone asked to cancel: id, reason as JSON; its pause, if in force;
           words of orders
  Events   none
]]

--- @include lib/start
--- @include lib/limits

local worker, lease, info = ARGV[4], tonumber(ARGV[5]), ARGV[6]

-- Check.
if info ~= "" then
  redis.call("HLEN", root .. ":info")
end
local lost = {}
for at = 8, #ARGV, 3 do
  if redis.call("HGET", queue(ARGV[at]) .. "active", ARGV[at + 1]) ~= ARGV[at + 2] then
    lost[#lost + 1] = ARGV[at + 1]
  end
end
local cancel, asked = {}, redis.call("HGETALL", root .. ":cancelling")
for i = 1, #asked, 2 do
  local job_type = string.match(asked[i + 1], "^[^\t]*")
  local run = redis.call("HGET", queue(job_type) .. "active", asked[i])
  if run and string.match(run, "^%d+:%d+:%d+:([^:]*):") == worker then
    cancel[#cancel + 1] = asked[i]
    cancel[#cancel + 1] = string.match(asked[i + 1], "\t[^\t]*\t(.*)$") or ""
  end
end
local pause = redis.call("HGET", root .. ":paused", ":" .. worker)
local ordered = ARGV[7] ~= "" and redis.call("HGET", root .. ":orders", worker)

-- Move.
redis.call("ZADD", root .. ":workers", now + lease, worker)
if info ~= "" then
  redis.call("HSET", root .. ":info", worker, info)
end
local orders = {}
if ordered then
  redis.call("HDEL", root .. ":orders", worker)
  for word, till in string.gmatch(ordered, "(%a+)=(%d+)") do
    if tonumber(till) > now then
      orders[#orders + 1] = word
    end
  end
end
return { lost, cancel, is_paused(pause) and pause or "", orders }
