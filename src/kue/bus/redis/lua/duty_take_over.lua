#!lua flags=allow-oom
--[[
  duty_take_over: join a group, and take over duties of its dead nodes.

  A node of the group is dead when it is not a node of the cluster.  It must have been
  gone for a while: after a restart of Redis all are, and will rejoin.  One survivor is
  chosen for all duties of a dead node.  For each duty that was handed back, one is chosen
  that has not failed at it recently.  All survivors choose alike, and each caller takes
  what it is chosen for.

  KEYS
    1  root  tag that every key of the cluster begins with
  ARGV
    1  node
    2  group   quoted
    3  quorum  how many nodes the group must have for anything to be taken over
    4  grace   ms for which a node must have been gone
    5  again   ms after which a node that failed at a duty may be chosen for it again

  Returns  how many nodes the group has, then 1 if another is gone but not for long
           enough or 0, then the ids of this node's duties, at most 1,000
           | "GONE" (not a node)
  Events   none
]]

local root, node, group = KEYS[1], ARGV[1], ARGV[2]
local quorum, grace, again = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

--- @include lib/publish_change
--- @include lib/duty_keys

local keys = duties(root, group)

-- Check.
if not redis.call("ZSCORE", root .. ":nodes", node) then
  return "GONE"
end

-- Move.
redis.call("SADD", keys.nodes, node)
local live, is_live = {}, {}
for _, member in ipairs(redis.call("SMEMBERS", keys.nodes)) do
  if redis.call("ZSCORE", root .. ":nodes", member) then
    live[#live + 1] = member
    is_live[member] = true
    redis.call("HDEL", keys.gone, member)
  else
    redis.call("SREM", keys.nodes, member)
  end
end
table.sort(live)

local function is_over(holder)
  if holder == "" then
    return true
  end
  redis.call("HSETNX", keys.gone, holder, now())
  return now() - redis.call("HGET", keys.gone, holder) >= grace
end

local function chosen(holder, id)
  local failed = cjson.decode(redis.call("HGET", keys.tried, id) or "{}")
  local fit = {}
  for _, member in ipairs(live) do
    if (failed[member] or 0) <= now() - again then
      fit[#fit + 1] = member
    end
  end
  if #fit == 0 then
    return nil
  end
  local key = holder == "" and id or holder
  local number = tonumber(string.sub(redis.sha1hex(key), 1, 8), 16)
  return fit[number % #fit + 1]
end

local mine, waits, absent = {}, 0, {}
local all = redis.call("HGETALL", keys.holders)
for i = 1, #all, 2 do
  local id, holder = all[i], all[i + 1]
  if not is_live[holder] then
    absent[holder] = true
    if #live >= quorum then
      if not is_over(holder) then
        waits = 1
      elseif chosen(holder, id) == node then
        redis.call("HSET", keys.holders, id, node)
        holder = node
      end
    end
  end
  if holder == node then
    mine[#mine + 1] = id
  end
end
for _, other in ipairs(redis.call("HKEYS", keys.gone)) do
  if not absent[other] then
    redis.call("HDEL", keys.gone, other)
  end
end

return { #live, waits, unpack(mine) }
