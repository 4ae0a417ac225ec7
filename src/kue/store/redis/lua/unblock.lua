#!lua flags=allow-oom
--[[
  unblock: tell a job how one of another shard, which it waits for, ended.

  Repeating it does nothing: the job no longer waits for that one.  Touches the job, and at
  most 200 that wait for it (lib/dependants).

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    4  id       the job here
    5  parent   the job elsewhere
    6  outcome  complete | failed | cancelled | removed
    7  any      "1" if any end of the parent will do

  Returns  how many jobs that released
  Events   promotion, cancelled
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

local id, parent, outcome, any = ARGV[4], ARGV[5], ARGV[6], ARGV[7] == "1"

check_shard()
local own = header(id)
if own then
  check_job(id, own)
end
if redis.call("SISMEMBER", job .. id .. ":after", parent) == 0 then
  return 0
end
if any or outcome == "complete" then
  unblock(id, parent)
else
  give_up(id, parent, outcome)
end
publish()
return released
