#!lua flags=allow-oom
--[[
  append_chunks: append to the streams of running jobs.  Touches at most 500 jobs, with 500
  chunks and about 1 MiB together: the caller bounds them.

  A stream has the chunks of one run: the first chunk of another one replaces it.

  KEYS
    1  root  tag that every key of the shard begins with
  ARGV
    1  now     Unix ms, or empty for the server's clock
    2  shards  how many there are
    3  shard   which one this is
    then for each: id, token, start (how many chunks the run has sent before these), 1 if
    events are to have the chunks, how many chunks, and each as JSON

  Returns  words: "done" | "refused" (earlier chunks are missing) | "lost" | "gone"
  Events   chunk, if there are subscribers to the job itself
]]

--- @include lib/prelude
--- @include lib/integrity
--- @include lib/record_header
--- @include lib/publish

-- Return how many chunks of a run the stream has, and whether it has those of another.
local function count_chunks(key, fence)
  local last = redis.call("LINDEX", key, -1)
  if last and string.match(last, "^(%d+):") == fence then
    return redis.call("LLEN", key), false
  end
  return 0, last and true
end

-- Check.
check_shard()
local words, written, at = {}, {}, 4
while at <= #ARGV do
  local id, token, start, number = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]),
    tonumber(ARGV[at + 4])
  local head, word = header(id), "done"
  if not head then
    word = "gone"
  elseif redis.call("HGET", queue(head.type) .. "active", id) ~= token then
    word = "lost"
  else
    local fence, attempt = string.match(token, "^(%d+):%d+:(%d+):")
    local key = job .. id .. ":stream"
    local count, is_other = count_chunks(key, fence)
    if count < start then
      word = "refused"
    elseif count < start + number then
      -- A call that is repeated may find some of its chunks, or all.
      written[#written + 1] = { id = id, type = head.type, key = key, fence = fence,
        attempt = attempt, count = count, is_other = is_other,
        first = at + 5 + count - start, last = at + 4 + number, has_values = ARGV[at + 3] == "1" }
    end
  end
  words[#words + 1] = word
  at = at + 5 + number
end

-- Move.
for _, entry in ipairs(written) do
  local chunks, prefix = {}, entry.fence .. ":" .. entry.attempt .. ":" .. now .. "\t"
  for i = entry.first, entry.last do
    chunks[#chunks + 1] = prefix .. ARGV[i]
  end
  if entry.is_other then
    redis.call("UNLINK", entry.key)
  end
  redis.call("RPUSH", entry.key, unpack(chunks))
  -- Only for those who subscribe to the job itself.
  if is_observed and redis.call("ZSCORE", root .. ":watched", entry.id) then
    local values = entry.has_values and ',"values":['
      .. table.concat(ARGV, ",", entry.first, entry.last) .. "]" or ""
    emit("chunk", entry.id, entry.type, entry.attempt, '{"run":' .. entry.fence
      .. ',"start":' .. entry.count .. ',"number":' .. #chunks .. values .. "}")
  end
end

-- Publish.
publish()
return words
