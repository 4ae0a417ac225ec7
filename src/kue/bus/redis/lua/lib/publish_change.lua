local function now()
  local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The number of the last change.  It starts from the time: a Redis that lost its data
-- continues with a number that no node takes for the next.
local function last(root)
  local time = redis.call("TIME")
  redis.call("SET", root .. ":number", time[1] .. string.format("%06d", time[2]), "NX")
  return redis.call("GET", root .. ":number")
end

-- Numbers a change and publishes it to every node.
local function publish(root, change)
  last(root)
  redis.call("INCR", root .. ":number")
  local number = redis.call("GET", root .. ":number")
  redis.call("SPUBLISH", root .. ":changes", number .. "\t" .. change)
  return number
end
