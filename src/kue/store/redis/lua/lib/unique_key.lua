-- Unique keys of a type: key → "holder:least" or "holder:least:most".  A job holds its key
-- while it is unfinished and until `least`, but no longer than until `most`.
local function read_holder(held)
  local id, least, most = string.match(held or "", "^(%d+):(%d+):?(%d*)$")
  return id, tonumber(least), tonumber(most)
end

-- Return the job that holds a key, and where it is; nil if the key is free.
local function holder_of(q, key)
  local id, least, most = read_holder(redis.call("HGET", q .. "unique", key))
  if not id or (most and most <= now) then
    return nil
  end
  local place = place_of(id, q)
  local is_open = place and place ~= "parked" and not FINAL[place]
  if is_open or least > now then
    return id, place
  end
  return nil
end

-- Return the entry of a key; `least` is 0 if the key is free as soon as the job ended.
local function holding(id, least, most)
  local entry = id .. ":" .. string.format("%.0f", least)
  return most and entry .. ":" .. string.format("%.0f", most) or entry
end
