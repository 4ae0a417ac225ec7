-- Make a job waiting, delayed or ended; it must have left the structure it was in (depart).
local function arrive_waiting(id, q, head)
  local batch = {}
  redis.call("ZADD", q .. "waiting", ranks.enter(id, q, head, batch), id)
  ranks.write(batch)
  request_maintenance(head.type)
  if head.expires then
    redis.call("ZADD", q .. "expires", head.created + head.expires, id)
  end
  wake(q)
end

local function arrive_delayed(id, q, head, due)
  redis.call("ZADD", q .. "delayed", due, id)
  request_maintenance(head.type)
  if head.expires then
    redis.call("ZADD", q .. "expires", head.created + head.expires, id)
  end
  -- Sleeping workers know when the earliest job is due; wake one for an earlier job.
  if redis.call("ZRANGE", q .. "delayed", 0, 0)[1] == tostring(id) then
    wake(q)
  end
end

-- Make a job complete, failed or cancelled; `line` is the end of its history line.
local function arrive_final(id, q, head, state, line)
  if line then
    redis.call("APPEND", job .. id, '\n{"run":"","at":' .. now .. "," .. line)
  end
  redis.call("ZADD", q .. state, now, id)
  request_maintenance(head.type)
  flows.count(id, head, state, 1)
  if state == "failed" then
    local minute = root .. ":stats:" .. math.floor(now / 60000)
    add_up(minute, head.type .. ":failed", 1)
    redis.call("EXPIRE", minute, 90000)
    if line then
      add_failures(q, 1, id, line)
    end
    failures.report(head.type, { id }, {})
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
