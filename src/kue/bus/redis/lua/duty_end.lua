#!lua flags=allow-oom
--[[
  duty_end: end a duty, whichever node holds it.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  group  quoted
    2  id

  Returns  "OK"
  Events   none
]]

local root, group, id = KEYS[1], ARGV[1], ARGV[2]

--- @include lib/duty_keys

strike(duties(root, group), id)
return "OK"
