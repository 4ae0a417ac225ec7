-- Restart a finished job by hand: its attempts count from here on.

-- Return the other job that holds the unique key of an ended job; nil if none does.
local function other_holder(id, q, head)
  local by = head.unique and holder_of(q, head.unique)
  return by and by ~= id and by or nil
end

local function restart(id, q, head, place)
  redis.call("APPEND", job .. id, '\n{"run":"","at":' .. now .. ',"outcome":"restarted"}')
  redis.call("HDEL", q .. "tries", id)
  steps.restart(id, place)
  flows.count(id, head, place, -1)
  local most = head.unique_at_most and head.created + head.unique_at_most
  if head.unique and not (most and most <= now) then
    local least = head.unique_for and head.created + head.unique_for or 0
    redis.call("HSET", q .. "unique", head.unique, holding(id, least, most))
    if most then
      redis.call("ZADD", q .. "lapse", most, head.unique)
    end
  end
end
