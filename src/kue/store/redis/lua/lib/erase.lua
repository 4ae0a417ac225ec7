-- Delete job `id`, which is in `place`, and all its data.  A unique key that is to outlast
-- the job is deleted only `by_hand`.
local function erase(id, q, place, head, by_hand)
  depart(id, q, place, head)
  redis.call("HDEL", q .. "tries", id)
  if head.expires then
    redis.call("ZREM", q .. "expires", id)
  end
  free_unique(q, head, id, by_hand)
  redis.call("UNLINK", job .. id, job .. id .. ":log", job .. id .. ":steps")
  unmark_live({ id })
  notify_dependants(id, "removed")
  emit("remove", id, head.type, 0, "", head)
end
