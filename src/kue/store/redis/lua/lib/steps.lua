-- Durable steps of jobs: the record is described in store/step_record.py.
local steps = on_demand(function(steps)
  function steps.key(id)
    return job .. id .. ":steps"
  end

  -- Return how many signals of a name were sent and received, and which wait for it is open.
  function steps.signal_counts(key, name)
    local sent, received, wait = string.match(
      redis.call("HGET", key, "signals:" .. name) or "", "^(%d+):(%d+):(%d+)$")
    return tonumber(sent) or 0, tonumber(received) or 0, tonumber(wait) or 0
  end

  function steps.write_counts(key, name, sent, received, wait)
    redis.call("HSET", key, "signals:" .. name, sent .. ":" .. received .. ":" .. wait)
  end

  -- The value of a wait that has received a signal.
  steps.RECEIVED = "^%d+\t%d+\t%d+\t%d+\t(%d+)$"

  -- Add a step, sleep or wait; `value` is what follows its number and the time.
  function steps.add(key, field, value)
    redis.call("HSET", key, field, add_up(key, "steps", 1) .. "\t" .. now .. "\t" .. value,
      "last", field)
  end

  -- Begin the sleep or wait that a run was suspended for, unless it has begun; return when
  -- the job is due, nil for now.
  function steps.suspend(id, field, delay)
    local key = steps.key(id)
    local due = string.match(redis.call("HGET", key, field) or "", "^%d+\t%d+\t(%d+)")
    if not due then
      due = now + delay
      steps.add(key, field, string.format("%.0f", due))
    end
    local number, name = string.match(field, "^wait:(%d+):(.*)$")
    if name then
      local sent, received = steps.signal_counts(key, name)
      if sent > received then
        return nil
      end
      steps.write_counts(key, name, sent, received, number)
    end
    return tonumber(due) > now and tonumber(due) or nil
  end

  -- Forget the steps of a job that starts again from `place`: all if it was complete, else
  -- only a wait that did not get its signal, which then begins again.
  function steps.restart(id, place)
    local key = steps.key(id)
    if place == "complete" then
      redis.call("UNLINK", key)
      return
    end
    local last = redis.call("HGET", key, "last") or ""
    local value = redis.call("HGET", key, last) or ""
    if string.find(last, "^wait:") and not string.find(value, steps.RECEIVED) then
      redis.call("HDEL", key, last, "last")
    end
  end
end)
