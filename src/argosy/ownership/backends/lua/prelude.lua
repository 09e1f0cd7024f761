-- What every script begins with: the server's time, the end of sessions, grants, and the telling of facts.
--
-- Before this file stand the names of the keys (META, LEASES, …; see redis_keys.py), after it the body of one script.
-- ARGV[1] is the stem of the bids' keys and ARGV[2] the length to cut the stream at; a body's own arguments follow in A.
--
-- Every script first ends the sessions whose time is up, so that no later line needs to look at an expiry.
-- All times are the server's, in milliseconds with a fraction. Numbers that must stay exact are kept as text, because
-- cjson writes 14 digits only.

local BIDS_STEM, FACTS_KEPT_MAX = ARGV[1], ARGV[2]
local A = {unpack(ARGV, 3)}

local clock = redis.call('TIME')
local NOW = clock[1] * 1000 + clock[2] / 1000

local EXPIRY = {member = MEMBERS, holder = HOLDERS}
local INFO = {member = MEMBER_INFO, holder = HOLDER_INFO}

local function int(number) return string.format('%.0f', number) end
local function ms(number) return string.format('%.3f', number) end

-- The key of a bids hash is computed here and not passed in KEYS: which auction an ending session has a bid in is known
-- to its pending mark only. The stem carries the same hash tag as all KEYS, so the key is on this node.
local function bids_of(unit) return BIDS_STEM .. unit end

-- Facts carry consecutive numbers, so a watcher that misses one, however that came about, notices.
local function tell(kind, data)
  local number = redis.call('HINCRBY', META, 'facts', 1)
  redis.call('XADD', EVENTS, 'MAXLEN', '~', FACTS_KEPT_MAX, '*', 'number', int(number), 'kind', kind, 'data', data)
end

local function decoded(hash, field)
  local found = redis.call('HGET', hash, field)
  return found and cjson.decode(found) or nil
end

-- Leases.

local function held_by(node)
  local mark = node .. '\0'
  local units = {}
  for n, member in ipairs(redis.call('ZRANGEBYLEX', HELD, '[' .. mark, '(' .. node .. '\1')) do
    units[n] = string.sub(member, #mark + 1)
  end
  return units
end

local function drop(unit, node)
  redis.call('HDEL', LEASES, unit)
  redis.call('ZREM', HELD, node .. '\0' .. unit)
  tell('lease_gone', cjson.encode({unit = unit, epoch = redis.call('HGET', EPOCHS, unit)}))
end

local function put_lease(unit, lease)
  local text = cjson.encode(lease)
  redis.call('HSET', LEASES, unit, text)
  tell('lease_changed', text)
  return text
end

-- Since when this run of the server has kept the data, as far as the data knows. A server that was restarted, flushed or
-- put in another's place may have forgotten leases that still stand, so whoever grants waits for its grace after that.
-- Only INFO tells one run of a server from the next inside a script; it takes 8 microseconds, so not every script asks.
local function since()
  local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  local known = redis.call('HMGET', META, 'run_id', 'since_ms', 'sequence')
  -- A moment to come means that the clock was set back; waiting for it could take for ever.
  if known[1] == run_id and tonumber(known[2]) <= NOW then return tonumber(known[2]) end
  local sequence = math.max(math.floor(NOW), tonumber(known[3] or 0))
  redis.call('HSET', META, 'run_id', run_id, 'since_ms', ms(NOW), 'sequence', int(sequence))
  return NOW
end

-- A new epoch is greater than the unit's last, and than any that an earlier run of the server can have given and lost:
-- nobody leases one unit more than once per millisecond for long.
local function grant(unit, node, state)
  assert(redis.call('HEXISTS', LEASES, unit) == 0, 'OWN-1: the unit is held')
  local epoch = int(math.max(tonumber(redis.call('HGET', EPOCHS, unit) or 0), math.floor(since())) + 1)
  local holder = decoded(HOLDER_INFO, node)
  redis.call('HSET', EPOCHS, unit, epoch)
  redis.call('ZADD', HELD, 0, node .. '\0' .. unit)
  return put_lease(unit, {
    unit = unit, node = node, address = holder.address, token = holder.token, epoch = epoch, state = state,
  })
end

local function held(node, token, unit, epoch)
  local lease = decoded(LEASES, unit)
  return lease and lease.node == node and lease.token == token and lease.epoch == epoch and lease or nil
end

local function holds_any(node, units)
  for _, unit in ipairs(units) do
    local lease = decoded(LEASES, unit)
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
  for _, unit in ipairs(held_by(node)) do drop(unit, node) end
  local mark = decoded(PENDING, node)
  if mark then withdraw(node, mark.unit) end
end

local function end_member(node)
  redis.call('SREM', BIDDING, node)
  tell('member_gone', cjson.encode({node = node}))
end

local function end_session(role, node)
  redis.call('ZREM', EXPIRY[role], node)
  redis.call('HDEL', INFO[role], node)
  if role == 'member' then end_member(node) else end_holder(node) end
end

local function living(role, node, token)
  local info = decoded(INFO[role], node)
  return info and info.token == token and info or nil
end

for role, key in pairs(EXPIRY) do
  for _, node in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', ms(NOW))) do end_session(role, node) end
end
