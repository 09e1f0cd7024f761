-- Called on each new connection. ARGV: the layout version that this program writes, the field that marks an import.
--
-- A server that was restarted, emptied or replaced may have lost changes that watchers have already received. The first
-- connection that sees a new run of the server therefore advances the revision beyond any earlier one, and watchers from
-- before must list again. Microseconds since 1970 are enough: that would take more than a million row writes a second.

local version, half_loaded = take(), take()
call('HSETNX', META, 'schema', version)
local info = call('INFO', 'server')
local run_id = string.match(info, 'run_id:(%x+)')
local known = call('HMGET', META, 'run_id', 'revision')
if known[1] ~= run_id then
  local revision = int(math.max(tonumber(known[2] or 0) + 1, now_us()))
  call('HSET', META, 'run_id', run_id, 'revision', revision, 'floor', revision)
end
return {call('HGET', META, 'schema'), call('HEXISTS', META, half_loaded), string.match(info, 'redis_version:(%d+)')}
