-- Performs commits, each of which writes all or nothing. ARGV: see redis_commit.py. `described` is in redis_scripts.py.
--
-- First every write is checked against what is stored and against the writes before it; after that nothing can fail.

local EVENTS, events_kept_max = KEYS[2], nil

-- What is stored: the version, the columns that indexes use, and whether there is a companion. -----------------------

local function packed_columns(kind, raw)
  local columns, version = {}, string.match(raw, '^%d+')
  if kind.places[1] then
    local items = cmsgpack.unpack(string.sub(raw, #version + 1))
    for n, place in ipairs(kind.places) do
      local item = items[tonumber(place)]
      columns[n] = type(item) == 'number' and int(item) or item or false
    end
  end
  return tonumber(version), columns
end

local function stored(op)
  local kind = op.kind
  if kind.layout == 'row' then
    local found = call('HMGET', op.key, 'v', unpack(kind.places))
    if not found[1] then return 0 end
    local version = found[1]
    local is_long = string.byte(version, -1) == 43
    local columns = {}
    for n = 1, #kind.places do columns[n] = found[n + 1] end
    -- A part of the row's key is in no field.
    for n, part in pairs(kind.parts) do columns[n] = parts_of(op.member)[part] end
    return tonumber(is_long and string.sub(version, 1, -2) or version), columns, is_long
  end
  if kind.layout == 'value' then
    -- Its only index is the one that lists it, in the order in which values end.
    local raw = call('GET', op.key)
    if not raw then return 0 end
    return tonumber(string.match(raw, '^%d+')), {int(call('PEXPIRETIME', op.key))}
  end
  local raw = call('HGET', op.key, op.field)
  if not raw then return 0 end
  return packed_columns(kind, raw)
end

-- Checks -------------------------------------------------------------------------------------------------------------

local rows              -- of one commit, by key and field: what the writes so far leave there
local owners            -- by unique index and value: who has it then (false: nobody)

local function owner_of(index, value)
  local name = index.stem .. value
  if owners[name] == nil then owners[name] = call('HGET', index.stem, value) end
  return owners[name], name
end

local function taken_index(op)
  for _, index in ipairs(op.kind.uniques) do
    local old = op.old and index_key('', index.by, op.old)
    local new = op.columns and index_key('', index.by, op.columns)
    if old and old ~= new then
      local _, name = owner_of(index, old)
      owners[name] = false
    end
    if new and old ~= new then
      local owner, name = owner_of(index, new)
      if owner then return index.name end
      owners[name] = op.member
    end
  end
end

local function check_row(op)
  local cell = op.key .. op.field
  local state = rows[cell]
  if not state then
    local version, columns, is_long = stored(op)
    -- The server keeps a key until the millisecond after its end; nobody sees it any more.
    if version > 0 and op.kind.is_expiring and call('PEXPIRETIME', op.key) <= now() then version = 0 end
    state = {version = version, columns = columns, is_long = is_long}
  end
  local is_there = state.version > 0 or op.code ~= 'delete'
  if op.expected and op.expected ~= state.version or not is_there then return {'stale', op.number, state.version} end
  if op.code == 'check' then return end
  op.old, op.was_long, op.version = state.columns, state.is_long, op.version or state.version + 1
  local index = taken_index(op)
  if index then return {'taken', op.number, index} end
  rows[cell] = {version = op.columns and op.version or 0, columns = op.columns, is_long = op.long and op.long ~= ''}
end

-- Rows ---------------------------------------------------------------------------------------------------------------

local function move_entries(op)
  local kind, old, new = op.kind, op.old, op.columns
  for _, index in ipairs(kind.uniques) do
    local was, is = old and index_key('', index.by, old), new and index_key('', index.by, new)
    -- A write before this one may have taken over the old value.
    if was and was ~= is and call('HGET', index.stem, was) == op.member then call('HDEL', index.stem, was) end
    if is and was ~= is then call('HSET', index.stem, is, op.member) end
  end
  for _, index in ipairs(kind.indexes) do
    local was, is = old and index_key(index.stem, index.by, old), new and index_key(index.stem, index.by, new)
    local old_order = was and (index.order == 0 and '0' or old[index.order])
    local new_order = is and (index.order == 0 and '0' or new[index.order])
    local is_moved = was ~= is or old_order ~= new_order
    if old_order and is_moved then index_remove(was, old_order, op.member) end
    if new_order and is_moved then
      index_add(is, new_order, op.member, op.expires)
      if op.expires then
        index_sweep(is, function(member)
          local key = kind.layout == 'value' and kind.stem .. ':' .. member or row_key(kind.stem, member)
          return call('EXISTS', key) == 0
        end)
      end
    elseif new_order and op.expires then
      expire_with(chunk_of(is, new_order), op.expires)
    end
  end
end

local function is_same(old, new)
  if not old or not new then return false end
  for n = 1, #new do
    if old[n] ~= new[n] then return false end
  end
  return true
end

local function put_row(op)
  local layout, version = op.kind.layout, int(op.version)
  if layout == 'row' then
    if op.old then call('DEL', op.key) end
    if op.was_long then call('DEL', op.key .. ':_long') end
    call('HSET', op.key, 'v', op.long ~= '' and version .. '+' or version, unpack(ARGV, op.first, op.last))
    if op.long ~= '' then call('SET', op.key .. ':_long', op.long) end
    if op.expires then
      call('PEXPIREAT', op.key, int(op.expires))
      if op.long ~= '' then call('PEXPIREAT', op.key .. ':_long', int(op.expires)) end
    end
  elseif layout == 'value' then
    call('SET', op.key, version .. op.packed)
    call('PEXPIREAT', op.key, int(op.expires))
  else
    call('HSET', op.key, op.field, version .. op.packed)
    if layout == 'family' then call('SADD', op.kind.stem .. ':_index', op.family) end
  end
  if op.expires or not is_same(op.old, op.columns) then move_entries(op) end
end

local function remove_row(op)
  local layout = op.kind.layout
  if layout == 'packed' or layout == 'family' then
    call('HDEL', op.key, op.field)
    if layout == 'family' and call('EXISTS', op.key) == 0 then call('SREM', op.kind.stem .. ':_index', op.family) end
  else
    call('DEL', op.key)
    if op.was_long then call('DEL', op.key .. ':_long') end
  end
  move_entries(op)
end

-- Reading the arguments ----------------------------------------------------------------------------------------------

local kinds = {}

local function read_row(number, code)
  local name = ARGV[at + 1]
  local kind = kinds[name]
  if not kind then
    kind = described(name)
    kinds[name] = kind
  end
  local op = {
    number = number, code = code, kind = kind, table = name, key = ARGV[at + 2], member = ARGV[at + 3],
    field = ARGV[at + 4], family = ARGV[at + 5], expected = tonumber(ARGV[at + 6]), version = nil, expires = nil,
    columns = nil, old = nil, was_long = nil, first = nil, last = nil, long = nil,
  }
  at = at + 6
  if code ~= 'put' then return op end
  op.version, op.expires = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  at = at + 2
  local columns, count = {}, #kind.places
  for n = 1, count do
    local column = ARGV[at + n]
    columns[n] = column ~= '' and string.sub(column, 2)
  end
  at = at + count
  op.columns = columns
  if kind.layout == 'row' then
    op.first, op.last = at + 2, at + 1 + tonumber(ARGV[at + 1])
    at = op.last
    op.long = take()
  else
    op.packed = take()
  end
  return op
end

-- The commits --------------------------------------------------------------------------------------------------------

-- The revision of an empty registry begins at the time, as in hello.lua.
local function moved_revision(changes)
  local revision = call('HINCRBY', META, 'revision', changes)
  if revision > changes then return revision end
  revision = now_us() + changes
  call('HSET', META, 'revision', int(revision), 'floor', int(revision - changes))
  return revision
end

-- Checks of rows that were read and are not written come first, and have numbers below one.
local function checked_ops()
  local checks, count = tonumber(take()), tonumber(take())
  local ops, changes, grows = {}, 0, false
  rows, owners = {}, {}
  for n = 1, count do
    local code = take()
    local op, refused
    if code == 'put' or code == 'delete' or code == 'check' then
      op = read_row(n - checks, code)
      refused = check_row(op)
      if code ~= 'check' then changes = changes + 1 end
      grows = grows or code == 'put'
    else
      op = {number = n - checks, code = code}
      refused = read_other(op)
      grows = grows or code == 'append' or code == 'count' or code == 'begin_log' or code == 'set_counter'
    end
    if refused then return refused end
    ops[n] = op
  end
  return nil, ops, changes, grows
end

local function tell(ops, number)
  for _, op in ipairs(ops) do
    if op.kind and op.code ~= 'check' then
      number = number + 1
      local change = (op.code == 'put' and '+' or '-') .. op.table .. ' ' .. op.member
      call('XADD', EVENTS, 'MAXLEN', '~', events_kept_max, int(number) .. '-0', 'c', change)
    end
  end
end

local function commit()
  local refused, ops, changes, grows = checked_ops()
  if refused then return refused end
  -- A server out of memory refuses a script's first write if that may need memory, and then none. So a commit that grows
  -- begins with one that does, and a commit that only removes begins with its removals and goes through.
  local revision = grows and moved_revision(changes)
  local versions = {}
  taken, counts = {}, {}
  for _, op in ipairs(ops) do
    if op.code == 'put' then
      put_row(op)
      versions[#versions + 1] = op.version
    elseif op.code == 'delete' then
      remove_row(op)
    elseif op.code ~= 'check' then
      write_other(op)
    end
  end
  revision = revision or moved_revision(changes)
  if changes > 0 then tell(ops, revision - changes) end
  return {'done', int(revision), versions, taken, counts}
end

local outcomes = {}
events_kept_max = take()
for n = 1, tonumber(take()) do
  local last = at + 1 + tonumber(ARGV[at + 1])
  at = at + 1
  outcomes[n] = commit()
  at = last
end
return outcomes
