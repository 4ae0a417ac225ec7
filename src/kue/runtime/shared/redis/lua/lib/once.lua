-- A call whose reply was lost is made again, with the same number, and is answered as it
-- was the first time.  A caller makes one call at a time.
local caller, number = root .. ":call:" .. ARGV[1], tonumber(ARGV[2])

local function answered()
  local last, text = string.match(redis.call("GET", caller) or "", "^(%d+)\t(.*)$")
  if not last or tonumber(last) < number then
    return nil
  end
  -- One that comes after its successor was given up by its caller.
  return tonumber(last) == number and text or "-"
end

-- Longer than any caller tries.
local function answer(text)
  redis.call("SET", caller, ARGV[2] .. "\t" .. text, "PX", 60000)
  return text
end
