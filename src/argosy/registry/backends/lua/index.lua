-- Beginning of every script: arguments, clock, keys, and the location of index entries.
--
-- An index is a sorted set. Redis stores short ones as listpacks, in half the memory, so a longer one is split into chunks
-- of CHUNK_MAX entries by order: the key itself, then <key>:_<n> for each entry n of <key>:_chunks, which is scored by the
-- lowest order in it. Entries of equal order are never separated, so the order alone determines the chunk of an entry.
--
-- KEYS[1] is the hash of the registry's own data. The keys of rows and indexes are computed, because which ones a write
-- changes depends on what is stored; all have the hash tag of KEYS[1], so they are on this node.
-- Orders stay text: they may have more digits than Lua prints. A script is executed from its first line with each call, so
-- it defines only the functions that it needs.

local META = KEYS[1]
local CHUNK_MAX = 128
local call, ARGV = redis.call, ARGV

local at = 0
local function take()
  at = at + 1
  return ARGV[at]
end

local function int(number) return string.format('%.0f', number) end

local clock
local function now_us()
  clock = clock or call('TIME')
  return clock[1] * 1000000 + clock[2]
end
local function now() return math.floor(now_us() / 1000) end

-- As `escape_key_part` and `RegistryKeys.row` in redis_keys.py.
local function escape_key_part(part)
  if not string.find(part, '[%%:_]') then return part end
  part = string.gsub(part, '[%%:]', {['%'] = '%25', [':'] = '%3A'})
  if string.byte(part) == 95 then part = '%5F' .. string.sub(part, 2) end
  return part
end
local function parts_of(member)
  local parts = {}
  local held = string.gsub(member, '%z\255', '\255')
  for part in string.gmatch(held .. '\0', '(%Z*)%z') do parts[#parts + 1] = (string.gsub(part, '\255', '\0')) end
  return parts
end
local function row_key(stem, member)
  if not string.find(member, '[%%:%z_]') then return stem .. ':' .. member end
  local parts = parts_of(member)
  for n, part in ipairs(parts) do parts[n] = escape_key_part(part) end
  return stem .. ':' .. table.concat(parts, ':')
end

local function chunk_of(index, order)
  local found = call('ZREVRANGEBYSCORE', index .. ':_chunks', order, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if found[1] then return index .. ':_' .. found[1], found[2] end
  return index, '-inf'
end
