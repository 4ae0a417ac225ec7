-- Return where job `id` is among the structures of its type; nil if nowhere.
-- "held" is a waiting job that a limit, or that of its group, keeps from starting.
local STATES = { "waiting", "complete", "delayed", "failed", "held", "cancelled",
  "blocked", "parked" }

local function place_of(id, q)
  if redis.call("HEXISTS", q .. "active", id) == 1 then
    return "active"
  end
  for _, state in ipairs(STATES) do
    if redis.call("ZSCORE", q .. state, id) then
      return state
    end
  end
  return nil
end

local FINAL = { complete = true, failed = true, cancelled = true }
