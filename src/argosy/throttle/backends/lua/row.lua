-- The beginning of both scripts on a row. `rows.py` does the same arithmetic, and a contract suite compares the two.
--
-- KEYS[1] is the row. ARGV: decay per ms, ttl in ms, furthest time ahead in ms, fingerprint, instance, batch number, and
-- then three words for each bucket: column, value, time in ms.
-- Numbers are returned as text: as Lua numbers they would be truncated to integers, and `tostring` writes only 14 digits.

local ROW = KEYS[1]
local DECAY, TTL_MS, AHEAD_MS = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local FINGERPRINT, WRITER, NUMBER = ARGV[4], '~s:' .. ARGV[5], ARGV[6]
local FIRST, BUCKETS = 7, (#ARGV - 6) / 3

local clock = redis.call('TIME')
local NOW_US = clock[1] * 1000000 + clock[2]
local LATEST_MS = math.floor(NOW_US / 1000) + AHEAD_MS

local function int(number) return string.format('%.0f', number) end
local function exact(number) return string.format('%.17g', number) end

local function decay(value, from_ms, to_ms)
  if to_ms > from_ms then return value * math.exp(-DECAY * (to_ms - from_ms)) end
  return value
end

local function clamp(value)
  if value >= 1 then return 1 end
  if value > 0 then return value end
  return 0                                      -- below zero, or NaN
end

local fields = {'~b', '~v', '~c', WRITER}
for n = 0, BUCKETS - 1 do
  local col = ARGV[FIRST + 3 * n]
  fields[5 + 2 * n] = col .. ':prob'
  fields[6 + 2 * n] = col .. ':time'
end
local stored = redis.call('HMGET', ROW, unpack(fields))
local born = tonumber(stored[1] or NOW_US)
local version = tonumber(stored[2] or 0)
if stored[3] and stored[3] ~= FINGERPRINT then return redis.error_reply('FINGERPRINT differs') end

-- Calls `change(value, time, stored value, stored time)` for each bucket, writes its result, and returns the row's time of
-- creation and version, whether the batch was a duplicate, and the new state of each bucket.
local function apply(is_duplicate, change)
  local writes, answer = {}, {}
  for n = 0, BUCKETS - 1 do
    local prob, at_ms = tonumber(stored[5 + 2 * n] or 0) or 0, tonumber(stored[6 + 2 * n] or 0) or 0
    if not is_duplicate then
      local value = tonumber(ARGV[FIRST + 1 + 3 * n]) or 0
      local value_ms = math.min(tonumber(ARGV[FIRST + 2 + 3 * n]) or 0, LATEST_MS)
      prob, at_ms = change(value, value_ms, prob, at_ms)
      prob = clamp(prob)
      writes[#writes + 1] = fields[5 + 2 * n]
      writes[#writes + 1] = exact(prob)
      writes[#writes + 1] = fields[6 + 2 * n]
      writes[#writes + 1] = int(at_ms)
    end
    answer[4 + 2 * n] = exact(prob)
    answer[5 + 2 * n] = int(at_ms)
  end
  if not is_duplicate then
    version = version + 1
    redis.call('HSET', ROW, '~b', int(born), '~v', int(version), '~c', FINGERPRINT, unpack(writes))
    if NUMBER ~= '0' then redis.call('HSET', ROW, WRITER, NUMBER) end
    if redis.call('PTTL', ROW) < 0 then redis.call('PEXPIRE', ROW, TTL_MS) end
  end
  answer[1], answer[2], answer[3] = int(born), int(version), is_duplicate and '1' or '0'
  return answer
end
