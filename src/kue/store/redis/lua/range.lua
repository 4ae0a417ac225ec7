#!lua flags=no-writes
--[[
  range: read a page of ids of one state of some types, in order.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  place   structure: waiting | delayed | complete | failed | cancelled
    5  after_score, 6 after_id   what the page follows; empty to start
    7  skip    entries to pass over first
    8  limit   how many at most
    9  order   asc | desc
    then types

  Returns  score, id, type; three an entry, in order
  Events   none
]]

--- @include lib/start

local place, after_score, after_id = ARGV[4], ARGV[5], tonumber(ARGV[6])
local skip, limit, descending = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == "desc"
local places = place == "waiting" and { "waiting", "held" } or { place }
local found = {}

-- Entries of one score are in order of their digits, not of their number: what shares
-- the score of the last one seen is read whole and sorted.
local function before(a, b)
  if a.score ~= b.score then
    return a.score < b.score
  end
  return a.id < b.id
end

local function collect(key, job_type)
  local low = after_score == "" and (descending and "+inf" or "-inf") or after_score
  local want, offset, last = skip + limit + 1, 0, nil
  while true do
    local reply
    if descending then
      reply = redis.call("ZREVRANGEBYSCORE", key, low, "-inf", "WITHSCORES",
        "LIMIT", offset, 500)
    else
      reply = redis.call("ZRANGEBYSCORE", key, low, "+inf", "WITHSCORES",
        "LIMIT", offset, 500)
    end
    for i = 1, #reply, 2 do
      local entry = { id = tonumber(reply[i]), score = tonumber(reply[i + 1]),
        type = job_type }
      local is_new = not after_id or entry.score ~= tonumber(after_score)
        or (descending and entry.id < after_id)
        or (not descending and entry.id > after_id)
      if want <= 0 and entry.score ~= last then
        return
      end
      if is_new then
        found[#found + 1] = entry
        want = want - 1
      end
      last = entry.score
    end
    if #reply < 1000 then
      return
    end
    offset = offset + 500
  end
end

for at = 10, #ARGV do
  for _, name in ipairs(places) do
    collect(queue(ARGV[at]) .. name, ARGV[at])
  end
end
table.sort(found, before)
local answer = {}
for i = 1, math.min(limit, #found - skip) do
  local entry = found[descending and #found - skip - i + 1 or skip + i]
  answer[#answer + 1] = string.format("%.0f", entry.score)
  answer[#answer + 1] = string.format("%.0f", entry.id)
  answer[#answer + 1] = entry.type
end
return answer
