-- Changes of indexes, for scripts that write.

local function expire_with(key, expires)
  if call('PTTL', key) < expires - now() then call('PEXPIREAT', key, int(expires)) end
end

-- Splits a full chunk. At the end of an index only the new entry moves, so that growing orders fill whole chunks. Returns
-- the chunk for the new entry.
local function split(index, chunk, order)
  local from = order
  if tonumber(order) <= tonumber(call('ZRANGE', chunk, -1, -1, 'WITHSCORES')[2]) then
    local middle = call('ZRANGE', chunk, CHUNK_MAX / 2, CHUNK_MAX / 2, 'WITHSCORES')[2]
    if call('ZRANGE', chunk, 0, 0, 'WITHSCORES')[2] == middle then
      middle = call('ZRANGEBYSCORE', chunk, '(' .. middle, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    end
    if not middle then return chunk end
    from = middle
  end
  local number = int(call('HINCRBY', META, 'chunks', 1))
  local new = index .. ':_' .. number
  call('ZADD', index .. ':_chunks', from, number)
  local moved = call('ZRANGEBYSCORE', chunk, from, '+inf', 'WITHSCORES')
  if moved[1] then
    for n = 1, #moved, 2 do call('ZADD', new, moved[n + 1], moved[n]) end
    call('ZREMRANGEBYSCORE', chunk, from, '+inf')
    local left = call('PTTL', chunk)
    if left > 0 then call('PEXPIRE', new, left) end
  end
  return tonumber(order) >= tonumber(from) and new or chunk
end

local function index_remove(index, order, member)
  local chunk = chunk_of(index, order)
  call('ZREM', chunk, member)
  if chunk ~= index and call('EXISTS', chunk) == 0 then
    call('ZREM', index .. ':_chunks', string.sub(chunk, #index + 3))
  end
end

-- With `expires` the keys of the index expire with their last entry.
local function index_add(index, order, member, expires)
  local chunk = chunk_of(index, order)
  if call('ZCARD', chunk) == CHUNK_MAX and not call('ZSCORE', chunk, member) then chunk = split(index, chunk, order) end
  call('ZADD', chunk, order, member)
  if expires then
    expire_with(chunk, expires)
    if chunk ~= index then expire_with(index .. ':_chunks', expires) end
  end
end

-- Deletes the two oldest entries if their rows no longer exist. Every new entry of an index of expiring rows does this. It
-- removes up to two for each one added, so leftovers do not accumulate.
local function index_sweep(index, is_gone)
  local chunk, number = index, nil
  if call('EXISTS', index) == 0 then
    number = call('ZRANGE', index .. ':_chunks', 0, 0)[1]
    if not number then return end
    chunk = index .. ':_' .. number
  end
  local oldest = call('ZRANGE', chunk, 0, 1, 'WITHSCORES')
  for n = 1, #oldest, 2 do
    if is_gone(oldest[n], oldest[n + 1]) then call('ZREM', chunk, oldest[n]) end
  end
  if number and call('EXISTS', chunk) == 0 then call('ZREM', index .. ':_chunks', number) end
end

-- The key of an index for a row's columns, or nil if one of them is None. For a unique index, the field in its hash.
local function index_key(stem, by, columns)
  for n = 1, #by do
    local value = columns[by[n]]
    if not value then return nil end
    stem = stem .. ':' .. escape_key_part(value)
  end
  return stem
end
