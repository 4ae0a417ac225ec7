#!lua flags=allow-oom
--[[
  cycle: end runs, then start others, in one round trip.

  The hot path, and all of `settle` and `claim` too, which leave the other half empty.
  Whoever holds a run's token may end it, once.  A claim is named by lane and number: said
  again it answers with the same runs, and an older one that was delayed on its way gets
  nothing, or it would take jobs that nobody waits for any more.  Claims are remembered for
  at least an hour, which is longer than any call lives.

  Touches at most 500 runs that end, whose endings have about 1 MiB (the caller bounds
  both), 200 jobs that wait for those (lib/dependants), and of the jobs to start 1,000 or
  about 1 MiB (lib/claim), after 200 of each type that became due.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  who claims
    5  lease   ms that the worker's lease runs from now
    6  lane    of the claim, empty to claim nothing
    7  seq     number of the claim in its lane
    8  limit   jobs to take at most
    9  tail    what the story of an expired job says
   10  count   types to take from, which follow
    then groups of runs that ended alike, see lib/settle:
       ending, type, delay, flags, count
       id, token, tail   count times

  Returns  {words, now, next_at, taken, stalls}
           words   index, "already" | "lost" | "gone"; all others are "done"
           taken   id, token, record
           stalls  id, times its worker was lost; where there were any
  Events   complete, failed, failed_attempt, cancelled, release, remove, start, promotion,
           error
]]

--- @include lib/start
--- @include lib/sound
--- @include lib/header
--- @include lib/tell
--- @include lib/live
--- @include lib/state
--- @include lib/unlink
--- @include lib/errors
--- @include lib/depart
--- @include lib/arrive
--- @include lib/dependants
--- @include lib/erase
--- @include lib/settle
--- @include lib/promote
--- @include lib/limits
--- @include lib/claim

local worker, lease, lane, seq = ARGV[4], tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
local limit, expired_tail, types = tonumber(ARGV[8]), ARGV[9], {}
local CLAIMS_MS = 3600000
local hour = math.floor(now / CLAIMS_MS)
local claims = root .. ":claims:" .. hour
local at = 11
for i = 1, ARGV[10] do
  types[i] = ARGV[at]
  at = at + 1
end

-- A structure that holds nothing is not there: one look tells of all types.
local first_group, lines = at, {}
for _, job_type in ipairs(types) do
  lines[#lines + 1] = queue(job_type) .. "waiting"
  lines[#lines + 1] = queue(job_type) .. "delayed"
end
local has_work = #lines > 0 and redis.call("EXISTS", unpack(lines)) > 0

-- Check what may be written before it is read: the settling comes before the claim.
check_zsets(root .. ":", { "workers", "agenda" })
local claimant, last = worker .. ":" .. lane, nil
if lane ~= "" then
  last = redis.call("HGET", claims, claimant)
    or redis.call("HGET", root .. ":claims:" .. (hour - 1), claimant)
end
local is_idle = first_group > #ARGV and not has_work
if not is_idle then
  for _, name in ipairs({ "cancelling", "paused", "limits",
    "stats:" .. math.floor(now / 60000) }) do
    redis.call("HLEN", root .. ":" .. name)
  end
  redis.call("STRLEN", root .. ":fence")
  for _, job_type in ipairs(types) do
    check_type(job_type)
  end
end
local parents = is_idle and 0 or redis.call("SCARD", root .. ":parents")
if parents > 0 then
  redis.call("HLEN", root .. ":outbox")
  find_parents(first_group, parents)
  if next(is_parent) then
    check_shard()
  end
end
while ARGV[at] do
  check_type(ARGV[at + 1])
  if string.find(ARGV[at + 3], "r", 1, true) then
    check_shard()
  end
  local count = tonumber(ARGV[at + 4])
  local are_tied = ARGV[at + 3] ~= "" or not FINAL[ARGV[at]]
  for i = 1, (are_tied or next(is_parent)) and count or 0 do
    local id = ARGV[at + 2 + 3 * i]
    local head = (are_tied or is_parent[id]) and header(id)
    if head then
      check_ties(id, head)
    end
  end
  at = at + 5 + 3 * count
end
at = first_group

while ARGV[at] do
  local ending, job_type, delay, flags, count = unpack(ARGV, at, at + 4)
  settle(ending, job_type, tonumber(delay), flags, at + 5, tonumber(count))
  at = at + 5 + 3 * count
end

if lane ~= "" then
  last = tonumber(last) or -1
  local suffix = ":" .. worker .. ":" .. lane .. "." .. seq
  if seq == last then
    replay(types, suffix)
  elseif seq > last then
    if redis.call("HSET", claims, claimant, seq) == 1 then
      redis.call("EXPIRE", claims, 3 * CLAIMS_MS / 1000)
    end
    redis.call("ZADD", root .. ":workers", now + lease, worker)
    -- Settling may have brought work that was not there before.
    if limit > 0 and not is_idle then
      claim(types, limit, suffix, expired_tail)
    end
  end
end

publish()
return { words, now, next_at or 0, taken, stalls }
