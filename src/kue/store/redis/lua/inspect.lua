#!lua flags=no-writes
--[[
  inspect: look at jobs and other things closely; each at one moment.  The caller bounds
  how many.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    then subjects, each after the number of its arguments:
       "job", id, count, count places to look into, jobs it may wait for
       "tie", parent, id              how a job of this shard knows of one that waits
       "keys", key, Redis type, …     which of these are not as they should be
       "unique", type, key            who holds a unique key
       "lapse", type, key             when a unique key is to be freed, and if it is held
       "schedule", name               a schedule, and when it fires next
       "kept", field                  a small record, and when it is swept
       "agenda", type                 when maintenance looks at a type
       "groups", type                 groups whose running jobs were counted wrongly
       "errors", type                 how failed jobs are counted by error
       "entry", key, member           what a structure says of a member
       "value", key                   a string

  Returns  {now, {digest, facts}, …}: what is so of each subject
  Events   none
]]

--- @include lib/start
--- @include lib/header
--- @include lib/limits
--- @include lib/facts
--- @include lib/subjects

local answers, at = { now }, 4
while ARGV[at] do
  local last = at + tonumber(ARGV[at])
  local facts, digest = look_at(at + 1, last)
  answers[#answers + 1] = { digest, facts }
  at = last + 1
end
return answers
