-- Checks a watcher's position. ARGV: the last revision it has received.
--
-- Returns 'gone' if changes after it may be lost or trimmed from the stream, else 'ok'; and the latest revision.

local EVENTS = KEYS[2]
local after = tonumber(take())
local found = call('HMGET', META, 'revision', 'floor')
local revision, floor = tonumber(found[1] or 0), tonumber(found[2] or 0)
if after == revision then return {'ok', int(revision)} end
local oldest = call('XRANGE', EVENTS, '-', '+', 'COUNT', 1)[1]
local first = oldest and tonumber(string.match(oldest[1], '^(%d+)')) or math.huge
if after > revision or after < floor or first > after + 1 then return {'gone', int(revision)} end
return {'ok', int(revision)}
