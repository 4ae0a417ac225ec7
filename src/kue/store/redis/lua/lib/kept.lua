-- The value of a small record as it was written; nil when there is none, or it is over.
local function kept(text)
  local till, value = string.match(text or "", "^(%d*)\t(.*)$")
  if not till or (till ~= "" and tonumber(till) <= now) then
    return nil
  end
  return value
end
