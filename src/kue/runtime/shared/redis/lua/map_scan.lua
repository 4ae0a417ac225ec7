#!lua flags=no-writes
--[[
  map_scan: read a map, in pieces if it is large.

  An entry that exists from the first piece to the last is read at least once.

  KEYS
    1  root  tag that every key of the slice begins with
  ARGV
    1  map
    2  what    "keys" | "entries"
    3  cursor  0 for the first piece
    4  count   approximate number of entries in a piece
    5  whole   a map of up to so many entries is read at once

  Returns  the next cursor, 0 after the last piece; and a list of keys, each followed by
           its value for "entries"
  Events   none
]]

local root, name = KEYS[1], ARGV[1]
local what, cursor, count, whole = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])

--- @include lib/map

local found
if cursor == "0" and redis.call("HLEN", map) <= whole then
  found = redis.call("HGETALL", map)
else
  local piece = redis.call("HSCAN", map, cursor, "COUNT", count)
  cursor, found = piece[1], piece[2]
end

local is_timed = redis.call("EXISTS", ends) == 1
local read = {}
for i = 1, #found, 2 do
  local last = is_timed and redis.call("ZSCORE", ends, found[i])
  if not last or tonumber(last) > now then
    read[#read + 1] = found[i]
    if what == "entries" then
      read[#read + 1] = found[i + 1]
    end
  end
end
return { cursor, read }
