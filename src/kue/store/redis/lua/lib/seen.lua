-- What the caller saw of a job: `created` is when it was created, `ending` how the line
-- begins that tells of its end ("-": it had not ended).  Empty: the caller did not look.

-- Does the id belong to another job by now?
local function is_other(head, created)
  return created ~= "" and head.created ~= tonumber(created)
end

-- Is this the last line of the story?  A line may be long: the end of the record is read
-- in growing pieces until one has the whole line.
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

-- Did it end, was it restarted or did it end again since the caller looked?
local function is_past(id, place, ending)
  if ending == "" then
    return false
  elseif ending == "-" then
    return FINAL[place] == true
  end
  return not (FINAL[place] and ends_with(id, ending))
end
