#!lua flags=allow-oom
--[[
  receive_signal: end a wait of a running job, if its signal is there or its time has passed.
  Touches one job, with up to 64 KiB.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id
    5  token   of the run
    6  name    of the signal, quoted
    7  number  of the wait among those for this signal

  Returns  {"lost" | "gone"}, or {"done", the wait's value or "", the signal's data or ""}
  Events   update
]]

--- @include lib/prelude
--- @include lib/record_header
--- @include lib/publish
--- @include lib/steps

local id, token, name, number = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local key, field = steps.key(id), "wait:" .. number .. ":" .. name

-- Return the value of the wait, and the data of the signal it received.
local function answer(value)
  local signal = string.match(value, steps.RECEIVED)
  local kept = signal and redis.call("HGET", key, "signal:" .. signal .. ":" .. name)
  return { "done", value, string.match(kept or "", "^%d+\t%d+\t(.*)$") or "" }
end

-- Check.
local head = header(id)
if not head then
  return { "gone" }
elseif redis.call("HGET", queue(head.type) .. "active", id) ~= token then
  return { "lost" }
end
local value = redis.call("HGET", key, field) or ""
local due, ended = string.match(value, "^%d+\t%d+\t(%d+)(\t?)")
local sent, received = steps.signal_counts(key, name)
local has_signal = sent > received
if ended == "\t" or not (has_signal or (due and tonumber(due) <= now)) then
  return answer(value)
end

-- Move.
if not due then
  steps.add(key, field, now)
  value = redis.call("HGET", key, field)
end
received = has_signal and received + 1 or received
value = value .. "\t" .. now .. "\t" .. (has_signal and received or "")
redis.call("HSET", key, field, value)
steps.write_counts(key, name, sent, received, 0)

-- Publish.
emit("update", id, head.type, string.match(token, "^%d+:%d+:(%d+):"))
publish()
return answer(value)
