#!lua
--[[
  reserve: take numbers of jobs that will be added with them.

  Has no allow-oom flag, like add: what could not be added needs no number.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  count   how many numbers, at most 500

  Returns  the first of them; the others follow
  Events   none
]]

--- @include lib/prelude
--- @include lib/job_bitmap
--- @include lib/job_numbers

local last = last_number()
if not last then
  return damaged_number()
end
take_numbers(last, last + tonumber(ARGV[4]))
return last + 1
