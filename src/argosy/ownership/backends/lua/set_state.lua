-- Changes the state of a lease that this session holds at this epoch.
-- A: node, token, unit, epoch, state.

local node, token, unit, epoch, state = unpack(A)
if not live_session('holder', node, token) then return {'fenced'} end
local lease = own_lease(node, token, unit, epoch)
if not lease then return {'not_held'} end
if lease.state == state then return {'ok', redis.call('HGET', LEASES, unit)} end

lease.state = state
return {'ok', put_lease(unit, lease)}
