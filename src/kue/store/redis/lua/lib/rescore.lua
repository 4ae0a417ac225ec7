-- Give a waiting job another score, wherever it is listed.
local function rescore(id, q, place, head, to)
  redis.call("ZADD", q .. place, "XX", to, id)
  if place == "held" then
    -- It is held by one of them.
    if head.group then
      redis.call("ZADD", q .. "held:" .. head.group, "XX", to, id)
    end
    for _, limit in ipairs(named.limits_of(head)) do
      redis.call("ZADD", limit.held, "XX", to, id)
    end
  end
end
