-- Keys of the duties of a group.
local function duties(root, group)
  local base = root .. ":duty:" .. group
  return {
    -- set: nodes of the group that were alive at the last check
    nodes = base .. ":nodes",
    -- hash: id → node that holds the duty; empty if none does
    holders = base .. ":holders",
    -- hash: id → the duty, JSON
    records = base .. ":records",
    -- hash: id → JSON object, node → when it failed at it, ms
    tried = base .. ":tried",
    -- hash: node → when it was first found to be gone, ms
    gone = base .. ":gone",
    -- string, for an hour: the duty has ended
    struck = base .. ":struck:",
  }
end

-- Ends a duty.  A frozen or disconnected node that still performs it finds out later.
local function strike(keys, id)
  redis.call("HDEL", keys.holders, id)
  redis.call("HDEL", keys.records, id)
  redis.call("HDEL", keys.tried, id)
  redis.call("SET", keys.struck .. id, 1, "EX", 3600)
end
