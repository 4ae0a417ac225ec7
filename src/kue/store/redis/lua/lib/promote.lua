-- Promote due jobs of a type from delayed to waiting, at most `limit`; return how many.
-- A job whose record cannot be read is parked: it would be due forever.
local function promote(job_type, q, limit)
  local due = redis.call("ZRANGEBYSCORE", q .. "delayed", "-inf", now, "LIMIT", 0, limit)
  if #due == 0 then
    return 0
  end
  local waiting, parked, batch = {}, {}, {}
  for _, id in ipairs(due) do
    local head = header(id)
    if head then
      waiting[#waiting + 1] = ranks.enter(id, q, head, batch)
      waiting[#waiting + 1] = id
    else
      parked[#parked + 1] = now
      parked[#parked + 1] = id
    end
  end
  redis.call("ZREM", q .. "delayed", unpack(due))
  if #parked > 0 then
    redis.call("ZADD", q .. "parked", unpack(parked))
    for i = 2, #parked, 2 do
      emit("error", parked[i], job_type, 0, '{"message":"its record cannot be read"}')
    end
  end
  if #waiting > 0 then
    redis.call("ZADD", q .. "waiting", unpack(waiting))
    ranks.write(batch)
    wake(q)
    if has_listeners or has_watched then
      for i = 2, #waiting, 2 do
        emit("promotion", waiting[i], job_type, 0)
      end
    end
  end
  return #due
end
