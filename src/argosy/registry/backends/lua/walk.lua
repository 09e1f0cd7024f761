-- Iteration over indexes, for scripts that read.

local function take_list()
  local list = {}
  for n = 1, tonumber(take()) do list[n] = take() end
  return list
end

-- The fields of a row and its companion.
local function fetch(key)
  local flat = call('HGETALL', key)
  if not flat[1] then return nil end
  local version = flat[1] == 'v' and flat[2] or call('HGET', key, 'v')
  return flat, string.byte(version, -1) == 43 and call('GET', key .. ':_long')
end

-- Calls visit(member, order) for the entries from `low` to `high` (bounds of ZRANGEBYSCORE), in order, until it has returned
-- true `limit` times, or 'stop' once. An entry for which it returns false has no row any more, and is deleted.
local function index_walk(index, low, high, is_reverse, limit, visit)
  local command = is_reverse and 'ZREVRANGEBYSCORE' or 'ZRANGEBYSCORE'
  local first, last = low, high
  if is_reverse then first, last = high, low end
  local chunk, lowest = chunk_of(index, (string.gsub(first, '^%(', '')))
  local seen = 0
  while chunk and seen < limit do
    local kept = 0
    repeat
      local size = math.min(limit - seen, 2 * CHUNK_MAX)
      local entries = call(command, chunk, first, last, 'WITHSCORES', 'LIMIT', kept, size)
      for n = 1, #entries, 2 do
        local verdict = visit(entries[n], entries[n + 1])
        if verdict == 'stop' then return end
        if verdict then kept, seen = kept + 1, seen + 1 else call('ZREM', chunk, entries[n]) end
      end
    until #entries < 2 * size or seen >= limit
    local chunks, next_chunk = index .. ':_chunks', nil
    if is_reverse then
      if lowest == '-inf' then break end
      next_chunk = call('ZREVRANGEBYSCORE', chunks, '(' .. lowest, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
      if not next_chunk[1] then next_chunk = {'', '-inf'} end
    else
      next_chunk = call('ZRANGEBYSCORE', chunks, '(' .. lowest, last, 'WITHSCORES', 'LIMIT', 0, 1)
      if not next_chunk[1] then break end
    end
    chunk, lowest = next_chunk[1] == '' and index or index .. ':_' .. next_chunk[1], next_chunk[2]
  end
end

local function index_count(index, low)
  local count = call('ZCOUNT', index, low, '+inf')
  for _, number in ipairs(call('ZRANGE', index .. ':_chunks', 0, -1)) do
    count = count + call('ZCOUNT', index .. ':_' .. number, low, '+inf')
  end
  return count
end
