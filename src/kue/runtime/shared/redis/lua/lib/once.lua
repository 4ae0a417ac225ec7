-- Idempotency: a call whose reply was lost is sent again, with the same number, and gets
-- the reply of the first time.  A caller makes one call at a time.
local caller, number = root .. ":call:" .. ARGV[1], tonumber(ARGV[2])

local function answered()
  local last, text = string.match(redis.call("GET", caller) or "", "^(%d+)\t(.*)$")
  if not last or tonumber(last) < number then
    return nil
  end
  -- A call that arrives after its successor was abandoned by its caller.
  return tonumber(last) == number and text or "-"
end

-- Kept for longer than any caller retries.
local function answer(text)
  redis.call("SET", caller, ARGV[2] .. "\t" .. text, "PX", 60000)
  return text
end
