-- Delete job `id`, which is in `place`, and all its data.  A unique key that is to outlast
-- the job is deleted only `by_hand`.
local function erase(id, q, place, head, by_hand)
  local is_complete = place == "complete"
  depart(id, q, place, head)
  redis.call("HDEL", q .. "tries", id)
  if head.expires then
    redis.call("ZREM", q .. "expires", id)
  end
  free_unique(q, head, id, by_hand)
  redis.call("UNLINK", job .. id, job .. id .. ":log", job .. id .. ":steps",
    job .. id .. ":stream")
  unmark_live({ id })
  if not is_complete then
    removed.mark_lost({ id })
  end
  flows.leave(id, head, place)
  if redis.call("SISMEMBER", root .. ":parents", id) == 1 then
    flows.forget(id)
    -- One that succeeded did so, however many of its dependants are yet to be notified.
    dependants.notify(id, is_complete and "complete" or "removed")
  end
  emit("remove", id, head.type, 0, "", head)
end
