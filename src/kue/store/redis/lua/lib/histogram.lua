-- Add to histogram buckets, which are kept as "5=2 19=40": one field per bucket would take
-- ten times the memory.
local function add_buckets(key, field, text)
  local known = redis.call("HGET", key, field)
  local total, bounds = {}, {}
  for _, part in ipairs({ known or "", text }) do
    -- There are some hundred; with very long damaged text the search would take hours.
    for bound, number in string.gmatch(string.sub(part, 1, 10000), "(%d+)=(%d+)") do
      if not total[bound] then
        bounds[#bounds + 1] = bound
      end
      total[bound] = (total[bound] or 0) + tonumber(number)
    end
  end
  for i, bound in ipairs(bounds) do
    bounds[i] = bound .. "=" .. string.format("%.0f", total[bound])
  end
  redis.call("HSET", key, field, table.concat(bounds, " "))
end
