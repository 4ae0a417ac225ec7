#!lua flags=no-writes
--[[
  map_scan: read a map, in pieces if it is large.

  What is there from the first piece to the last is read, once or more often.

  KEYS
    1  root  tag that every key of the slice begins with
  ARGV
    1  map
    2  what    "keys" | "entries"
    3  cursor  0 for the first piece
    4  count   about how many entries a piece has
    5  whole   how many are read at once nevertheless

  Returns  the next cursor, 0 after the last piece; and a list of keys, each followed by
           its value if entries were asked for
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
