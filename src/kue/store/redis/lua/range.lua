#!lua flags=no-writes
--[[
  range: read a page of ids of one state of some types, in order.

  Touches at most `limit` entries of each type, and about as many again where entries
  share a score (lib/page_within_score).  The caller names so few types that these are 5,000 at most,
  and finds a page with a large offset by counting.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  place   structure: waiting | delayed | complete | failed | cancelled
    5  after_score, 6 after_id   the entry before the page; empty to start
    7  limit   how many at most
    8  order   asc | desc
    then types

  Returns  score, id, type; three values per entry, in order
  Events   none
]]

--- @include lib/prelude
--- @include lib/page_within_score

local place, after_score, after_id = ARGV[4], ARGV[5], ARGV[6]
local limit, descending = tonumber(ARGV[7]), ARGV[8] == "desc"
local places = place == "waiting" and { "waiting", "held" } or { place }
local found = {}

local function before(a, b)
  if a.score ~= b.score then
    return a.score < b.score
  end
  return a.id < b.id
end

local function collect(key, job_type)
  local want = limit

  local function take(id, score)
    found[#found + 1] = { id = tonumber(id), score = tonumber(score), type = job_type }
    want = want - 1
  end

  local function take_tied(score, after)
    for _, id in ipairs(tied(key, score, after, want, descending)) do
      take(id, score)
    end
  end

  local command, from, to = "ZRANGEBYSCORE", "-inf", "+inf"
  if descending then
    command, from, to = "ZREVRANGEBYSCORE", to, from
  end
  if after_score ~= "" then
    take_tied(after_score, after_id)
    from = "(" .. after_score
  end
  local reply = redis.call(command, key, from, to, "WITHSCORES", "LIMIT", 0, want)
  local last, is_all = reply[#reply], #reply < 2 * want
  for i = 1, #reply, 2 do
    if is_all or reply[i + 1] ~= last then
      take(reply[i], reply[i + 1])
    end
  end
  if last and not is_all then
    -- Others may share the score of the last one, and come before it.
    take_tied(last)
  end
end

for at = 9, #ARGV do
  for _, name in ipairs(places) do
    collect(queue(ARGV[at]) .. name, ARGV[at])
  end
end
table.sort(found, before)
local answer = {}
for i = 1, math.min(limit, #found) do
  local entry = found[descending and #found - i + 1 or i]
  answer[#answer + 1] = string.format("%.0f", entry.score)
  answer[#answer + 1] = string.format("%.0f", entry.id)
  answer[#answer + 1] = entry.type
end
return answer
