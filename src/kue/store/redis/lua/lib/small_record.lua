-- Return the value of a small record; nil if there is none, or it has expired.
local function kept(text)
  local till, value = string.match(text or "", "^(%d*)\t(.*)$")
  if not till or (till ~= "" and tonumber(till) <= now) then
    return nil
  end
  return value
end
