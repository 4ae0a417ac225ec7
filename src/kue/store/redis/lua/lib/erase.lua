-- Delete job `id`, which is in `place`, with all that is kept of it.  A unique key that is
-- to outlast the job goes only `by_hand`.
local function erase(id, q, place, head, by_hand)
  depart(id, q, place, head)
  redis.call("HDEL", q .. "tries", id)
  if head.expires then
    redis.call("ZREM", q .. "expires", id)
  end
  free_unique(q, head, id, by_hand)
  redis.call("UNLINK", job .. id, job .. id .. ":log")
  unmark_live({ id })
  tell_dependants(id, "removed")
  tell("remove", id, head.type, 0)
end
