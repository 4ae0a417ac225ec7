-- Flows: `:members:<flow>` has the jobs of this shard that were added with that flow, and
-- `:flow:<flow>` how many ended in which way: `complete`, `failed` and `cancelled` count
-- removed ones, too, which `gone_complete` and so on count alone.  On the shard of the job
-- that gives the flow its name, `at:<shard>` lists all that have members; elsewhere
-- `linked` marks that this one is, or is about to be.
-- Counting must not stop a script between two writes: `kue doctor` counts again.
local flows = {}

function flows.add(flow, field, number)
  if type(redis.pcall("HINCRBY", root .. ":flow:" .. flow, field, number)) ~= "number" then
    redis.pcall("HSET", root .. ":flow:" .. flow, field, number)
  end
end

-- Job `id` became `state`, or (by -1) is no longer.
function flows.count(id, head, state, by)
  if head.flow
    and type(redis.pcall("ZSCORE", root .. ":members:" .. head.flow, id)) == "string" then
    flows.add(head.flow, state, by)
  end
end

-- Job `id` is being removed from `place`; one that had not ended counts as cancelled.
function flows.leave(id, head, place)
  if not head.flow or redis.pcall("ZREM", root .. ":members:" .. head.flow, id) ~= 1 then
    return
  end
  if not FINAL[place] then
    place = "cancelled"
    flows.add(head.flow, place, 1)
  end
  flows.add(head.flow, "gone_" .. place, 1)
end

-- The job that gives a flow its name is being removed: delete the index, here and on the
-- other shards.
function flows.forget(flow)
  local fields = redis.pcall("HKEYS", root .. ":flow:" .. flow)
  for _, field in ipairs(fields.err and {} or fields) do
    local at = string.match(field, "^at:(%d+)$")
    if at and tonumber(at) ~= shard then
      redis.call("HSET", root .. ":outbox", "drop:" .. flow .. ":" .. at, "")
      request_maintenance(SHARD)
    end
  end
  redis.call("UNLINK", root .. ":flow:" .. flow, root .. ":members:" .. flow)
end
