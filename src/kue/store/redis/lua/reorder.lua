#!lua flags=allow-oom
--[[
  reorder: give waiting jobs the score that the order of their type asks for.

  Called when that order was changed, with all waiting jobs in several calls.  It can be
  repeated: a score follows from the job alone.  With ageing it counts from the creation of
  the job, because nothing else is known of the past.  Touches at most 500 jobs.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  type    of the jobs
    then ids

  Returns  "OK"
  Events   none
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/named_limits
--- @include lib/rank
--- @include lib/rescore

local q, rule = queue(ARGV[4]), ranks.rule_of(ARGV[4])

-- Check.
check_type(ARGV[4])
for i = 5, #ARGV do
  local head = header(ARGV[i])
  if head then
    check_ties(ARGV[i], head)
  end
end

-- Move.
for i = 5, #ARGV do
  local id = ARGV[i]
  local head = header(id)
  for _, place in ipairs({ "waiting", "held" }) do
    if head and redis.call("ZSCORE", q .. place, id) then
      local ageing = rule and rule.ageing
      -- Jobs of one millisecond keep their order, unless their numbers pass a multiple of
      -- 1,000: there are no more ranks in a millisecond.
      local to = ageing and (head.created + head.priority * ageing) * 1000
        + math.floor(id / shards) % 1000 or score(head.priority, id)
      rescore(id, q, place, head, to)
    end
  end
end
return "OK"
