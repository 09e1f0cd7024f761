-- One request on one bucket: reads it, decides, writes it back. The arithmetic is that of buckets.py, case by case; the
-- two are changed together.
--
-- KEYS  1 the bucket
-- ARGV  1 now in ms, or '' for this server's own time
--       2 algorithm  3 flags  4 hits  5 limit  6 duration  7 burst (0 is the limit)  8 created_at (0 is now)
--       9 10 11 begin, end and length in ms of the calendar interval; all '' if the duration names none
--
-- Returns {'ok', status, remaining, base, basis, step}: the reset time is base + (limit - basis) * step, which the caller
-- computes, because the product may not fit in a double. Or {'no interval'}: the duration should name a calendar interval.
-- Or {'now', ms}: nothing was done, because the calendar interval is not the one around this server's time.
--
-- Lua numbers are doubles. Requests are bounded so that every sum is exact.

local GREGORIAN, RESET, DRAIN = 4, 8, 32
local REMAINING_MAX = 2 ^ 53
local RETAIN_MS = 60000         -- after the end of a bucket, so that a clock passed in ARGV may be behind the server's

local algorithm, flags = tonumber(ARGV[2]), tonumber(ARGV[3])
local hits, limit, duration = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local begins, ends, length = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local burst = tonumber(ARGV[7])
if burst == 0 then burst = limit end

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local created = tonumber(ARGV[8])
if created == 0 then created = now end

local function has(flag)
  return bit.band(flags, flag) ~= 0
end

local function whole(number)
  return string.format('%.0f', number)
end

-- A double as an int64, as amd64 converts it: what does not fit becomes the smallest integer.
local function truncate(number)
  if not (number >= -2 ^ 63 and number < 2 ^ 63) then return -2 ^ 63 end
  if number < 0 then return math.ceil(number) end
  return math.floor(number)
end

local is_calendar = has(GREGORIAN)
if is_calendar and ends and not (begins <= now and now <= ends) then
  return {'now', whole(now)}
end

local function answer(status, remaining, base, basis, step)
  return {'ok', status, whole(remaining), whole(base), whole(basis), whole(step)}
end

local function store(line, expire)
  local left = expire - now
  if left < 0 then left = 0 end
  redis.call('SET', KEYS[1], line, 'PX', whole(left + RETAIN_MS))
end

local function store_token(b)
  store(string.format('T %.0f %.0f %.0f %.0f %.0f %d', b.limit, b.duration, b.remaining, b.created, b.expire, b.status),
    b.expire)
end

local function store_leaky(b)
  store(string.format('L %.0f %.17g %.0f %.0f', b.burst, b.remaining, b.updated, b.expire), b.expire)
end

local function load_bucket()
  local line = redis.call('GET', KEYS[1])
  if not line then return nil end
  local kind, numbers = string.sub(line, 1, 1), {}
  for word in string.gmatch(string.sub(line, 3), '%S+') do numbers[#numbers + 1] = tonumber(word) end
  local b
  if kind == 'T' then
    b = {kind = 'T', limit = numbers[1], duration = numbers[2], remaining = numbers[3], created = numbers[4],
      expire = numbers[5], status = numbers[6]}
  else
    b = {kind = 'L', burst = numbers[1], remaining = numbers[2], updated = numbers[3], expire = numbers[4]}
  end
  if b.expire < now then return nil end
  return b
end

-- The end of a token bucket's window that began at `since`; nil if the duration should name an interval and does not.
local function window_end(since)
  if not is_calendar then return since + duration end
  return ends
end

local function new_token()
  local expire = window_end(created)
  if not expire then
    redis.call('DEL', KEYS[1])
    return {'no interval'}
  end
  local status, remaining = 0, limit - hits
  if hits > limit then status, remaining = 1, limit end
  store_token({limit = limit, duration = duration, remaining = remaining, created = created, expire = expire, status = 0})
  return answer(status, remaining, expire, 0, 0)
end

local function take_tokens(b, left)
  local status, remaining = b.status, left
  if hits == 0 then
    -- a request that only reads
  elseif left == 0 and hits > 0 then
    b.status, status = 1, 1
  elseif hits == b.remaining then
    b.remaining, remaining = 0, 0
  elseif hits > b.remaining then
    status = 1
    if has(DRAIN) then b.remaining, remaining = 0, 0 end
  else
    b.remaining = math.min(b.remaining - hits, REMAINING_MAX)
    remaining = b.remaining
  end
  store_token(b)
  return answer(status, remaining, b.expire, 0, 0)
end

local function on_token(b)
  if b.limit ~= limit then
    b.remaining = math.min(math.max(b.remaining + (limit - b.limit), 0), REMAINING_MAX)
    b.limit = limit
  end
  local left = b.remaining
  if b.duration ~= duration then
    local expire = window_end(b.created)
    if not expire then
      store_token(b)
      return {'no interval'}
    end
    if expire <= created then
      expire = created + duration
      b.created, b.remaining = created, b.limit
    end
    b.duration, b.expire = duration, expire
  end
  return take_tokens(b, left)
end

local function new_leaky()
  local span = duration
  if is_calendar then
    if not ends then
      redis.call('DEL', KEYS[1])
      return {'no interval'}
    end
    span = ends - now
  end
  local status, remaining = 0, burst - hits
  if hits > burst then status, remaining = 1, 0 end
  store_leaky({burst = burst, remaining = remaining, updated = created, expire = created + span})
  return answer(status, remaining, created, remaining, truncate(duration / limit))
end

local function pour(b, step)
  local room = truncate(b.remaining)
  local status, basis = 0, room
  if hits > room then
    status = 1
    if has(DRAIN) and room ~= 0 then b.remaining, room = 0, 0 end
  else
    if hits == room then
      b.remaining = 0
    elseif hits ~= 0 then
      b.remaining = b.remaining - hits
    end
    room = truncate(b.remaining)
    basis = room
  end
  store_leaky(b)
  return answer(status, room, created, basis, step)
end

local function on_leaky(b)
  if has(RESET) then b.remaining = burst end
  if b.burst ~= burst then
    if burst > truncate(b.remaining) then b.remaining = burst end
    b.burst = burst
  end
  local rated, span = duration, duration
  if is_calendar then
    if not ends then
      store_leaky(b)
      return {'no interval'}
    end
    rated, span = length, ends - now
  end
  local rate = rated / limit
  if hits ~= 0 then b.expire = created + span end
  local leak = (created - b.updated) / rate
  if truncate(leak) > 0 then
    b.remaining = b.remaining + leak
    b.updated = created
  end
  if truncate(b.remaining) > burst then b.remaining = burst end
  return pour(b, truncate(rate))
end

local b = load_bucket()
if algorithm == 0 then
  if b and has(RESET) then
    redis.call('DEL', KEYS[1])
    return answer(0, limit, 0, 0, 0)
  end
  if b and b.kind == 'T' then return on_token(b) end
  return new_token()
end
if b and b.kind == 'L' then return on_leaky(b) end
return new_leaky()
