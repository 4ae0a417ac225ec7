#!lua flags=allow-oom
--[[
  doctor_repair: carry out a repair of `kue doctor`, if the facts that it is based on still hold.

  The caller has decided, from the facts that `doctor_inspect` returned; here they are only
  compared.  The caller orders the commands so that the first one that Redis may refuse
  (its key has the wrong type) comes before any that deletes something.  Examines one
  subject, as `doctor_inspect` does, and runs the commands that repair it.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  digest  of the facts that the caller decided by
    5  size    arguments of the subject, which follow, as `doctor_inspect` takes them
    then commands, each after the number of its words

  Returns  "done" | "changed" | "refused"
  Events   none
]]

--- @include lib/prelude
--- @include lib/record_header
--- @include lib/job_bitmap
--- @include lib/limits
--- @include lib/rank
--- @include lib/doctor_facts
--- @include lib/doctor_subjects

local expected, at = ARGV[4], 6 + tonumber(ARGV[5])

-- Check.
local _, digest = look_at(6, at - 1)
if digest ~= expected then
  return "changed"
end

-- Move.
while ARGV[at] do
  local last = at + tonumber(ARGV[at])
  local reply = redis.pcall(unpack(ARGV, at + 1, last))
  if type(reply) == "table" and reply.err then
    return "refused"
  end
  at = last + 1
end
return "done"
