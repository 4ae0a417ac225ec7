#!lua flags=no-writes
--[[
  doctor_inspect: report facts about jobs and other subjects for `kue doctor`, each atomically.
  The caller bounds how many.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    then subjects, each after the number of its arguments:
       "job", id, count, count places to look into, jobs it may wait for
       "dependency", parent, id       how a job of this shard refers to one that waits
       "flow", id                     the index of a flow on this shard
       "flow home", id, shard         what the shard of its job knows of another's
       "places", id, …                where jobs are
       "keys", key, Redis type, …     which of these have a wrong type or expire
       "unique", type, key            the holder of a unique key
       "lapse", type, key             when a unique key is freed, and its holder
       "schedule", name               a schedule, and when it fires next
       "kept", field                  a small record, and when it is deleted
       "agenda", type                 when maintenance looks at a type
       "groups", type                 groups whose count of running jobs is wrong
       "errors", type                 counts of failed jobs by error
       "entry", key, member           the value or score of a member
       "value", key                   a string

  Returns  {now, {digest, facts}, …}: the facts of each subject
  Events   none
]]

--- @include lib/prelude
--- @include lib/record_header
--- @include lib/job_bitmap
--- @include lib/limits
--- @include lib/rank
--- @include lib/doctor_facts
--- @include lib/doctor_subjects

local answers, at = { now }, 4
while ARGV[at] do
  local last = at + tonumber(ARGV[at])
  local facts, digest = look_at(at + 1, last)
  answers[#answers + 1] = { digest, facts }
  at = last + 1
end
return answers
