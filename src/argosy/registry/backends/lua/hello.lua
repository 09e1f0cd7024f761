-- Greets the server on each new connection. A: the layout's version that this program writes, the mark of an import.
--
-- A server that was restarted, emptied or put in another's place may have forgotten changes that were told. So whoever
-- first sees a new run of it moves the revision on, further than any earlier one can have been, and watchers from before
-- that are told to list again. Microseconds will do: nobody writes more rows than that for long.

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
