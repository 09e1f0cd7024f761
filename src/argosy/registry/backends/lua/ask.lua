-- Answers some questions as of one instant. A: for each question a letter and what it needs; see redis_ask.py.
--
-- The answer begins with the server's time. Entries of indexes whose rows have expired are dropped on the way.

-- Whether a row that may have expired still has the values it is listed under; a namesake of a row that expired does not.
local function is_listed(key, fields, values, order_field, order)
  if call('PEXPIRETIME', key) <= now() then return false end
  for n, field in ipairs(fields) do
    if call('HGET', key, field) ~= values[n] then return false end
  end
  return order_field == '' or call('HGET', key, order_field) == order
end

-- How rows of a table end: '-' never, 'o' in the order of this index, 'x' in some other order.
local function live_low(low, ending)
  if ending ~= 'o' then return low end
  local bound = tonumber((string.gsub(low, '^%(', '')))
  if low ~= '-inf' and bound >= now() then return low end
  return '(' .. int(now())
end

local answer = {
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
    local ending, fields, values, order_field = take(), take_list(), take_list(), take()
    local rows = {}
    index_walk(index, live_low(low, ending), high, is_reverse, limit, function(member, order)
      local key = row_key(stem, member)
      local flat, long = fetch(key)
      if not flat or ending ~= '-' and not is_listed(key, fields, values, order_field, order) then return false end
      rows[#rows + 1] = {member, flat, long}
      return true
    end)
    return rows
  end,
  c = function()
    local stem, index, ending, fields, values, order_field = take(), take(), take(), take_list(), take_list(), take()
    if ending ~= 'x' then return index_count(index, live_low('-inf', ending)) end
    local count = 0
    index_walk(index, '-inf', '+inf', false, math.huge, function(member, order)
      local key = row_key(stem, member)
      local is_there = is_listed(key, fields, values, order_field, order)
      if is_there then count = count + 1 end
      return is_there
    end)
    return count
  end,
  l = function()
    local log, name, logs, limit = take(), take(), take(), tonumber(take())
    local found = call('TYPE', log).ok
    if found ~= 'list' and found ~= 'none' then return 'type' end
    return {limit > 0 and call('LRANGE', log, -limit, -1) or {}, call('LLEN', log), call('HGET', logs, name)}
  end,
  k = function()
    local counter = take()
    local found = call('TYPE', counter).ok
    if found ~= 'string' and found ~= 'none' then return 'type' end
    return {call('GET', counter), call('PTTL', counter)}
  end,
}

local answers = {int(now())}
for n = 1, tonumber(take()) do answers[n + 1] = answer[take()]() or false end
return answers
