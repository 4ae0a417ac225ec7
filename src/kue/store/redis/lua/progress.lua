#!lua flags=allow-oom
--[[
  progress: store the progress of runs, which also restarts their ttl.  Touches at most 500
  jobs: the caller bounds them.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    then for each: id, percent, data as JSON, token or empty, when it was created or empty

  Returns  words: "done" | "lost" | "refused" | "gone"
  Events   progress
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish

-- Check.
check_shard()
local words, written = {}, {}
for at = 4, #ARGV, 5 do
  local id, token = ARGV[at], ARGV[at + 3]
  local head = header(id)
  if head then
    check_type(head.type)
  end
  local run = head and redis.call("HGET", queue(head.type) .. "active", id)
  local word = "done"
  if not head or (ARGV[at + 4] ~= "" and head.created ~= tonumber(ARGV[at + 4])) then
    word = "gone"
  elseif token ~= "" and run ~= token then
    word = "lost"
  elseif not run then
    word = "refused"
  else
    written[#written + 1] = { at = at, id = id, head = head, run = run }
  end
  words[#words + 1] = word
end

-- Move.
for _, entry in ipairs(written) do
  local id, head, percent, data = entry.id, entry.head, ARGV[entry.at + 1], ARGV[entry.at + 2]
  local q = queue(head.type)
  redis.call("HSET", q .. "progress", id, percent .. "\t" .. data)
  if head.ttl then
    redis.call("ZADD", q .. "ttl", now + head.ttl, id)
  end
  emit("progress", id, head.type, string.match(entry.run, "^%d+:%d+:(%d+):"),
    '{"progress":' .. percent .. ',"data":' .. data .. "}")
end

-- Publish.
publish()
return words
