-- Performs reads as of one instant. ARGV: the number of reads, then for each one a letter and its arguments; see
-- redis_queries.py.
--
-- The reply begins with the server's time. Index entries whose rows have expired are deleted when a read meets them:
-- Redis deletes an expired row by itself, but not its entries.

-- Whether a row that may have expired still has the values of its index entry. A newer row with the same key, written
-- after the first one expired, may not.
local function is_listed(key, fields, values, order_field, order)
  if call('PEXPIRETIME', key) <= now() then return false end
  for n, field in ipairs(fields) do
    if call('HGET', key, field) ~= values[n] then return false end
  end
  return order_field == '' or call('HGET', key, order_field) == order
end

-- How rows of a table expire: '-' never, 'o' in the order of this index, 'x' in another order. With 'o' the expired entries
-- are below `now`, so the lower bound leaves them out.
local function live_low(low, expiry)
  if expiry ~= 'o' then return low end
  local bound = tonumber((string.gsub(low, '^%(', '')))
  if low ~= '-inf' and bound >= now() then return low end
  return '(' .. int(now())
end

local read = {
  n = function() return int(now()) end,
  r = function()
    local flat, long = fetch(take())
    return flat and {flat, long}
  end,
  v = function()
    local key = take()
    local raw = call('GET', key)
    return raw and {raw, call('PEXPIRETIME', key)}
  end,
  h = function() return call('HGET', take(), take()) end,
  a = function() return call('HGETALL', take()) end,
  s = function() return call('HLEN', take()) end,
  u = function()
    local index, value, stem, is_packed = take(), take(), take(), take() == '1'
    local member = call('HGET', index, value)
    if not member then return false end
    if is_packed then return {member, call('HGET', stem, member)} end
    local flat, long = fetch(row_key(stem, member))
    return {member, flat, long}
  end,
  f = function()
    local stem, index, low, high, is_reverse, limit = take(), take(), take(), take(), take() == '1', tonumber(take())
    local expiry, fields, values, order_field = take(), take_list(), take_list(), take()
    local rows = {}
    index_walk(index, live_low(low, expiry), high, is_reverse, limit, function(member, order)
      local key = row_key(stem, member)
      local flat, long = fetch(key)
      if not flat or expiry ~= '-' and not is_listed(key, fields, values, order_field, order) then return false end
      rows[#rows + 1] = {member, flat, long}
      return true
    end)
    return rows
  end,
  c = function()
    local stem, index, expiry, fields, values, order_field = take(), take(), take(), take_list(), take_list(), take()
    if expiry ~= 'x' then return index_count(index, live_low('-inf', expiry)) end
    local count = 0
    index_walk(index, '-inf', '+inf', false, math.huge, function(member, order)
      local key = row_key(stem, member)
      local is_valid = is_listed(key, fields, values, order_field, order)
      if is_valid then count = count + 1 end
      return is_valid
    end)
    return count
  end,
  l = function()
    local log, name, logs, limit = take(), take(), take(), tonumber(take())
    local kind = call('TYPE', log).ok
    if kind ~= 'list' and kind ~= 'none' then return 'type' end
    return {limit > 0 and call('LRANGE', log, -limit, -1) or {}, call('LLEN', log), call('HGET', logs, name)}
  end,
  k = function()
    local counter = take()
    local kind = call('TYPE', counter).ok
    if kind ~= 'string' and kind ~= 'none' then return 'type' end
    return {call('GET', counter), call('PTTL', counter)}
  end,
}

local replies = {int(now())}
for n = 1, tonumber(take()) do replies[n + 1] = read[take()]() or false end
return replies
