-- Where the duties of a group are kept.
local function duties(root, group)
  local base = root .. ":duty:" .. group
  return {
    -- set: nodes of the group that were alive when someone last looked
    nodes = base .. ":nodes",
    -- hash: id → node that has the duty; empty if nobody does
    holders = base .. ":holders",
    -- hash: id → what it is, JSON
    records = base .. ":records",
    -- hash: id → JSON object, node → when it failed at it, ms
    tried = base .. ":tried",
    -- hash: node → when it was first found to be gone, ms
    gone = base .. ":gone",
    -- string, for an hour: the duty is over
    struck = base .. ":struck:",
  }
end

-- Ends a duty for good.  Whoever still sees to it, frozen or cut off, will learn of it.
local function strike(keys, id)
  redis.call("HDEL", keys.holders, id)
  redis.call("HDEL", keys.records, id)
  redis.call("HDEL", keys.tried, id)
  redis.call("SET", keys.struck .. id, 1, "EX", 3600)
end
