-- Pages within one score: return up to `want` ids that share it in `key`, in numeric order,
-- after the id `after` (nil: from the first).
--
-- Redis keeps them in lexical order: 1, 10, 100, 2.  Those of one length are in numeric
-- order, so that one length is read after the other; reading all of them to sort would
-- block Redis when very many jobs are due at the same time.
local CHUNK, FEW = 200, 1000

local function tied(key, score, after, want, descending)
  local first = redis.call("ZCOUNT", key, "-inf", "(" .. score)
  local beyond = first + redis.call("ZCOUNT", key, score, score)
  local ids = {}

  local function is_beyond(id)
    local number, from = tonumber(id), tonumber(after)
    return not from or (descending and number < from) or (not descending and number > from)
  end

  if beyond - first <= FEW then
    for _, id in ipairs(redis.call("ZRANGE", key, first, beyond - 1)) do
      if beyond > first and is_beyond(id) then
        ids[#ids + 1] = id
      end
    end
    -- Strictly: a sort goes wrong if an id comes before itself.
    table.sort(ids, function(a, b)
      local left, right = tonumber(a), tonumber(b)
      return descending and left > right or not descending and left < right
    end)
    return { unpack(ids, 1, math.min(want, #ids)) }
  end

  local function member(rank)
    return redis.call("ZRANGE", key, rank, rank)[1]
  end

  -- Return the first rank whose member is `text`, or comes after it.
  local function rank_of(text)
    local low, high = first, beyond
    while low < high do
      local middle = math.floor((low + high) / 2)
      if member(middle) < text then
        low = middle + 1
      else
        high = middle
      end
    end
    return low
  end

  -- Between two ids of a length there may be many longer ones: skip them at once.
  local function up(length, rank)
    while rank < beyond and #ids < want do
      local part = redis.call("ZRANGE", key, rank, math.min(rank + CHUNK, beyond) - 1)
      local last, before = part[#part], #ids
      for _, id in ipairs(part) do
        if #id == length and #ids < want then
          ids[#ids + 1] = id
        end
      end
      rank = rank + #part
      if #ids == before and #last > length + 2 then
        local next_id = string.format("%.0f", tonumber(string.sub(last, 1, length)) + 1)
        if #next_id > length then
          return
        end
        rank = math.max(rank, rank_of(next_id))
      end
    end
  end

  local function down(length, rank)
    while rank >= first and #ids < want do
      local part = redis.call("ZRANGE", key, math.max(rank - CHUNK + 1, first), rank)
      local last, before = part[1], #ids
      for i = #part, 1, -1 do
        if #part[i] == length and #ids < want then
          ids[#ids + 1] = part[i]
        end
      end
      rank = rank - #part
      if #ids == before and #last > length + 2 then
        -- Its prefix may be an id, which comes before all ids that begin with it.
        local prefix = string.sub(last, 1, length)
        local found = rank_of(prefix)
        rank = math.min(rank, member(found) == prefix and found or found - 1)
      end
    end
  end

  local largest = (tonumber(redis.call("GET", root .. ":ids")) + 1) * shards
  local own, longest = after and #after, #string.format("%.0f", largest)
  if descending then
    for length = own or longest, 1, -1 do
      down(length, length == own and rank_of(after) - 1 or beyond - 1)
    end
  else
    for length = own or 1, longest do
      local text = length == own and after or "1" .. string.rep("0", length - 1)
      local rank = rank_of(text)
      up(length, text == after and member(rank) == after and rank + 1 or rank)
    end
  end
  return ids
end
