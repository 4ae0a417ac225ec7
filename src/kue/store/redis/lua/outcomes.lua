#!lua flags=no-writes
--[[
  outcomes: report how jobs ended, for one of another shard that is to wait for them.

  Touches at most 500 jobs, which the caller bounds.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    then ids

  Returns  for each: complete | failed | cancelled | removed | open
  Events   none
]]

--- @include lib/prelude
--- @include lib/record_header
--- @include lib/job_bitmap
--- @include lib/job_place
--- @include lib/parents

local answers = {}
for at = 4, #ARGV do
  answers[#answers + 1] = parents.ended(ARGV[at])
end
return answers
