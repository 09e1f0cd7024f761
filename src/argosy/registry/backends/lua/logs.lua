-- Writes other than rows: logs with their exact sizes, counters that may expire, and notifications.

local LOGS, COUNTERS = KEYS[3], KEYS[4]

local TYPES = {
  append = 'list', take = 'list', drop_log = 'list', begin_log = 'list',
  count = 'string', drop_counter = 'string', set_counter = 'string',
}

-- Reads the arguments of a write. Returns why it cannot be performed, or nil.
local function read_other(op)
  local code = op.code
  op.key, op.name = take(), take()
  if code == 'append' then
    op.payload = take()
    op.keep, op.keep_bytes = tonumber(take()) or math.huge, tonumber(take()) or math.huge
  elseif code == 'take' then op.count = tonumber(take())
  elseif code == 'count' then op.ttl_ms = tonumber(take())
  elseif code == 'notify' then op.message = take()
  elseif code == 'begin_log' then op.dropped = take()
  elseif code == 'set_counter' then op.value, op.expires = take(), tonumber(take())
  end
  if not TYPES[code] then return end
  local kind = call('TYPE', op.key).ok
  if kind ~= 'none' and kind ~= TYPES[code] then return {'type', op.number, kind} end
end

local taken, counts     -- results of one commit

local function log_sizes(op)
  local bytes, dropped = string.match(call('HGET', LOGS, op.name) or '0:0', '(%d+):(%d+)')
  return tonumber(bytes), tonumber(dropped)
end

local function append(op)
  local bytes, dropped = log_sizes(op)
  local length = call('RPUSH', op.key, op.payload)
  bytes = bytes + #op.payload
  while length > op.keep or bytes > op.keep_bytes do
    local oldest = call('LPOP', op.key)
    if not oldest then bytes = 0 break end                      -- the list was deleted by hand
    bytes, length, dropped = bytes - #oldest, length - 1, dropped + 1
  end
  call('HSET', LOGS, op.name, int(bytes) .. ':' .. int(dropped))
end

local function take_oldest(op)
  local entries = {}
  for n = 1, math.min(op.count, call('LLEN', op.key)) do entries[n] = call('LPOP', op.key) end
  taken[#taken + 1] = entries
  if entries[1] then
    local bytes, dropped = log_sizes(op)
    for _, entry in ipairs(entries) do bytes = bytes - #entry end
    call('HSET', LOGS, op.name, int(bytes) .. ':' .. int(dropped))
  end
end

local function count_up(op)
  local value = call('INCR', op.key)
  if value == 1 then
    if op.ttl_ms then call('PEXPIRE', op.key, op.ttl_ms) end
    index_add(COUNTERS, op.ttl_ms and int(call('PEXPIRETIME', op.key)) or '+inf', counter_member(op.name))
    index_sweep(COUNTERS, function(_, expires) return tonumber(expires) <= now() end)
  end
  local left = call('PTTL', op.key)
  counts[#counts + 1] = {value, left < 0 and 0 or left}
end

local function drop_counter(op)
  local expires = call('PEXPIRETIME', op.key)  -- -2: no such key, -1: no expiry
  if expires ~= -2 then index_remove(COUNTERS, expires == -1 and '+inf' or int(expires), counter_member(op.name)) end
  call('DEL', op.key)
end

local function write_other(op)
  local code = op.code
  if code == 'append' then append(op)
  elseif code == 'take' then take_oldest(op)
  elseif code == 'count' then count_up(op)
  elseif code == 'notify' then call('PUBLISH', op.key, op.message)
  elseif code == 'drop_log' then
    call('DEL', op.key)
    call('HDEL', LOGS, op.name)
  elseif code == 'drop_counter' then drop_counter(op)
  elseif code == 'begin_log' then call('HSETNX', LOGS, op.name, '0:' .. op.dropped)
  elseif code == 'set_counter' then
    call('SET', op.key, op.value)
    if op.expires then call('PEXPIREAT', op.key, op.expires) end
    index_add(COUNTERS, op.expires and int(op.expires) or '+inf', counter_member(op.name))
  end
end

