local map, ends = root .. ":map:" .. name, root .. ":ends:" .. name
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
