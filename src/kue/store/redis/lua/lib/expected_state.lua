-- Compare a job with what the caller saw of it: `created` is when it was created, `ending`
-- how the history line of its end begins ("-": it had not ended).  Empty: not compared.

-- Return whether the id belongs to another job by now.
local function is_other(head, created)
  return created ~= "" and head.created ~= tonumber(created)
end

-- Return whether the last history line begins so.  A line may be long: the end of the
-- record is read in growing pieces until one has the whole line.
local function ends_with(id, beginning)
  local size = 1024
  while true do
    local tail = redis.call("GETRANGE", job .. id, -size, -1)
    local last = string.match(tail, "^.*\n(.*)$")
    if last or #tail < size then
      return last ~= nil and string.sub(last, 1, #beginning) == beginning
    end
    size = size * 16
  end
end

-- Return whether the job ended, was restarted or ended again since the caller looked.
local function is_past(id, place, ending)
  if ending == "" then
    return false
  elseif ending == "-" then
    return FINAL[place] == true
  end
  return not (FINAL[place] and ends_with(id, ending))
end
