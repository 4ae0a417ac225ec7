#!lua flags=allow-oom
--[[
  add_timings: add how long jobs waited and ran to the statistics of the current minute.

  Touches two counters of each given type, which the caller bounds.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    then for each type: type, waits, runs; both in the format of lib/histogram

  Returns  "OK"
  Events   none
]]

--- @include lib/prelude
--- @include lib/histogram

local minute = root .. ":stats:" .. math.floor(now / 60000)
for at = 4, #ARGV, 3 do
  for i, name in ipairs({ "waits", "runs" }) do
    if ARGV[at + i] ~= "" then
      add_buckets(minute, ARGV[at] .. ":" .. name, ARGV[at + i])
    end
  end
end
redis.call("EXPIRE", minute, 90000)
return "OK"
