-- Parse the header of a record; nil if it is not one.
local function read_header(text)
  local star, priority, created, job_type, options =
    string.match(text, "^(%*?)(%-?%d+)\t(%d+)\t([^\t\n]+)([^\n]*)\n")
  if not priority then
    return nil
  end
  local head = {
    priority = tonumber(priority), created = tonumber(created), type = job_type,
    is_plain = star == "",
  }
  if star == "*" then
    for name, value in string.gmatch(options, "\t([a-z_]+)=([^\t]*)") do
      head[name] = tonumber(value) or value
    end
    -- Keys may look like numbers ("007") and must stay as written.
    head.unique = string.match(options, "\tunique=([^\t]*)")
    head.group = string.match(options, "\tgroup=([^\t]*)")
    head.flow = head.flow and string.match(options, "\tflow=(%d+)")
    if head.limit then
      head.limits = {}
      for ref in string.gmatch(options, "\tlimit=([^\t]*)") do
        head.limits[#head.limits + 1] = ref
      end
    end
  end
  return head
end

-- Read the header of job `id`; nil if it does not exist or is not a record.
local function header(id)
  local text = redis.pcall("GETRANGE", job .. id, 0, 5119)
  if type(text) ~= "string" then
    return nil
  end
  -- Longer with very many parents that were added with it.
  if #text == 5120 and not string.find(text, "\n", 1, true) then
    text = redis.call("GETRANGE", job .. id, 0, 65535)
  end
  return read_header(text)
end
