#!lua flags=allow-oom
--[[
  cycle: end runs, then start others, in one round trip.

  The hot path.  The verbs `settle` and `claim` use it, too, and leave the other half empty.
  A run is settled once, by the caller that has its token, which is a fencing token.  A
  claim is identified by lane and number.  A repeated one returns the same runs; an older
  one that arrives late gets nothing, because nobody waits for its jobs any more.  Claims
  are remembered for at least an hour, longer than any call lasts.

  Touches at most 500 runs that end, whose endings take about 1 MiB (the caller bounds
  both), 200 jobs that wait for those (lib/dependants), and of the jobs to start 1,000 or
  about 1 MiB (lib/claim), after 200 of each type that became due.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  worker  that claims
    5  lease   ms from now on that the worker's lease lasts
    6  lane    of the claim, empty to claim nothing
    7  seq     number of the claim in its lane
    8  limit   jobs to take at most
    9  tail    ends of the history line of an expired job, see lib/failures
   10  count   types to take from, which follow
    then groups of runs with the same ending, see lib/settle:
       ending, type, delay, flags, count
       id, token, tail   count times

  Returns  {words, now, next_at, taken, stalls}
           words   index, "already" | "lost" | "gone"; all others are "done"
           taken   id, token, record
           stalls  id, how often its worker was lost; only of stalled jobs
  Events   complete, failed, failed_attempt, cancelled, release, remove, start, promotion,
           error
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/flow
--- @include lib/unlink
--- @include lib/error_groups
--- @include lib/named_limits
--- @include lib/leave_state
--- @include lib/rank
--- @include lib/failures
--- @include lib/enter_state
--- @include lib/dependants
--- @include lib/erase
--- @include lib/steps
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

-- Empty structures do not exist: one command checks all types.
local first_group, sets = at, {}
for _, job_type in ipairs(types) do
  sets[#sets + 1] = queue(job_type) .. "waiting"
  sets[#sets + 1] = queue(job_type) .. "delayed"
  sets[#sets + 1] = queue(job_type) .. "opens"
end
local has_work = #sets > 0 and redis.call("EXISTS", unpack(sets)) > 0

-- Check what the claim needs, too: settling writes before the claim reads it.
check_zsets(root .. ":", { "workers", "agenda", "failures" })
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
  has_named_limits = redis.call("HLEN", root .. ":named_limits") > 0
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
    if string.find(ARGV[at + 3], "w", 1, true) then
      redis.call("HLEN", steps.key(id))
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
    claiming.replay(types, suffix)
  elseif seq > last then
    if redis.call("HSET", claims, claimant, seq) == 1 then
      redis.call("EXPIRE", claims, 3 * CLAIMS_MS / 1000)
    end
    redis.call("ZADD", root .. ":workers", now + lease, worker)
    -- Settling may have requeued jobs.
    if limit > 0 and not is_idle then
      claim(types, limit, suffix, expired_tail)
    end
  end
end

publish()
return { words, now, next_at or 0, taken, stalls }
