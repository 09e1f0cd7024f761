-- Prelude of every script: the server's time, expiry of sessions, leases, and publishing of events.
--
-- The names of the keys (META, LEASES, …; see redis_records.py) are defined before this file, and the body of one script
-- follows after it. ARGV[1] is the prefix of the bids' keys and ARGV[2] the length to trim the stream to; A holds the
-- body's own arguments.
--
-- Every script first ends the expired sessions, so that no later line has to check an expiry.
-- All times are the server's, in milliseconds with a fraction. Numbers that must stay exact are kept as text, because
-- cjson writes 14 digits only.

local BIDS_PREFIX, EVENTS_MAX = ARGV[1], ARGV[2]
local A = {unpack(ARGV, 3)}

local clock = redis.call('TIME')
local NOW = clock[1] * 1000 + clock[2] / 1000

local EXPIRY = {member = MEMBERS, holder = HOLDERS}
local INFO = {member = MEMBER_INFO, holder = HOLDER_INFO}

local function int(number) return string.format('%.0f', number) end
local function ms(number) return string.format('%.3f', number) end

-- The key of a bids hash is computed here and not passed in KEYS, because only the pending mark of an ending session tells
-- in which auction it has a bid. The prefix has the same hash tag as all KEYS, so the key is on this node.
local function bids_of(unit) return BIDS_PREFIX .. unit end

-- Events have consecutive numbers, so that a watcher detects a missing one, whatever the cause.
local function publish(kind, data)
  local number = redis.call('HINCRBY', META, 'facts', 1)
  redis.call('XADD', EVENTS, 'MAXLEN', '~', EVENTS_MAX, '*', 'number', int(number), 'kind', kind, 'data', data)
end

local function read_json(hash, field)
  local text = redis.call('HGET', hash, field)
  return text and cjson.decode(text) or nil
end

-- Leases.

local function units_of(node)
  local prefix = node .. '\0'
  local units = {}
  for n, member in ipairs(redis.call('ZRANGEBYLEX', HELD, '[' .. prefix, '(' .. node .. '\1')) do
    units[n] = string.sub(member, #prefix + 1)
  end
  return units
end

local function end_lease(unit, node)
  redis.call('HDEL', LEASES, unit)
  redis.call('ZREM', HELD, node .. '\0' .. unit)
  publish('lease_gone', cjson.encode({unit = unit, epoch = redis.call('HGET', EPOCHS, unit)}))
end

local function put_lease(unit, lease)
  local text = cjson.encode(lease)
  redis.call('HSET', LEASES, unit, text)
  publish('lease_changed', text)
  return text
end

-- Since when this run of the server has had the data. A server that was restarted, flushed or replaced may have lost leases
-- that are still in use, so new leases wait for the grace period after that. Inside a script only INFO tells one run of a
-- server from the next; it takes 8 microseconds, so only scripts that need it call this.
local function data_since()
  local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local known = redis.call('HMGET', META, 'run_id', 'since_ms', 'sequence')
  -- A time in the future means that the clock was set back. Waiting for it could take forever, so it is replaced.
  if known[1] == run_id and tonumber(known[2]) <= NOW then return tonumber(known[2]) end
  local sequence = math.max(math.floor(NOW), tonumber(known[3] or 0))
  redis.call('HSET', META, 'run_id', run_id, 'since_ms', ms(NOW), 'sequence', int(sequence))
  return NOW
end

-- A new epoch is greater than the unit's last one, and greater than any that an earlier run of the server can have granted
-- and lost: that would take more than one lease of the unit per millisecond since that run began.
local function grant(unit, node, state)
  assert(redis.call('HEXISTS', LEASES, unit) == 0, 'OWN-1: the unit is held')
  local epoch = int(math.max(tonumber(redis.call('HGET', EPOCHS, unit) or 0), math.floor(data_since())) + 1)
  local holder = read_json(HOLDER_INFO, node)
  redis.call('HSET', EPOCHS, unit, epoch)
  redis.call('ZADD', HELD, 0, node .. '\0' .. unit)
  return put_lease(unit, {
    unit = unit, node = node, address = holder.address, token = holder.token, epoch = epoch, state = state,
  })
end

-- The lease if this session holds the unit at this epoch. The epoch makes a late duplicate of a request harmless.
local function own_lease(node, token, unit, epoch)
  local lease = read_json(LEASES, unit)
  return lease and lease.node == node and lease.token == token and lease.epoch == epoch and lease or nil
end

local function holds_any(node, units)
  for _, unit in ipairs(units) do
    local lease = read_json(LEASES, unit)
    if lease and lease.node == node then return true end
  end
  return false
end

-- Sessions.

local function withdraw(node, unit)
  redis.call('HDEL', PENDING, node)
  redis.call('HDEL', bids_of(unit), node)
end

local function end_holder(node)
  for _, unit in ipairs(units_of(node)) do end_lease(unit, node) end
  local mark = read_json(PENDING, node)
  if mark then withdraw(node, mark.unit) end
end

local function end_member(node)
  redis.call('SREM', BIDDING, node)
  publish('member_gone', cjson.encode({node = node}))
end

local function end_session(role, node)
  redis.call('ZREM', EXPIRY[role], node)
  redis.call('HDEL', INFO[role], node)
  if role == 'member' then end_member(node) else end_holder(node) end
end

-- The stored record of a live session, or nil. Another token is another run of a node with this id.
local function live_session(role, node, token)
  local info = read_json(INFO[role], node)
  return info and info.token == token and info or nil
end

for role, key in pairs(EXPIRY) do
  for _, node in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', ms(NOW))) do end_session(role, node) end
end
