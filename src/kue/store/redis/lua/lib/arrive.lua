-- Put a job that is nowhere into line, or into the future.
local function arrive_waiting(id, q, head)
  redis.call("ZADD", q .. "waiting", score(head.priority, id), id)
  stir(head.type)
  if head.expires then
    redis.call("ZADD", q .. "expires", head.created + head.expires, id)
  end
  wake(q)
end

local function arrive_delayed(id, q, head, due)
  redis.call("ZADD", q .. "delayed", due, id)
  stir(head.type)
  if head.expires then
    redis.call("ZADD", q .. "expires", head.created + head.expires, id)
  end
  -- Sleepers know when the earliest job is due; they must hear of an earlier one.
  if redis.call("ZRANGE", q .. "delayed", 0, 0)[1] == tostring(id) then
    wake(q)
  end
end

-- Put a job that is nowhere where its life ends; `line` is what its story says of it.
local function arrive_final(id, q, head, state, line)
  if line then
    redis.call("APPEND", job .. id, '\n{"run":"","at":' .. now .. "," .. line)
  end
  redis.call("ZADD", q .. state, now, id)
  stir(head.type)
  if state == "failed" then
    local minute = root .. ":stats:" .. math.floor(now / 60000)
    add_up(minute, head.type .. ":failed", 1)
    redis.call("EXPIRE", minute, 90000)
    if line then
      blame(q, 1, id, line)
    end
  end
  redis.call("HDEL", q .. "tries", id)
  free_unique(q, head, id)
  if head.expires then
    redis.call("ZREM", q .. "expires", id)
  end
  if head.retention then
    redis.call("ZADD", q .. "retain_" .. state, now + head.retention, id)
  end
end
