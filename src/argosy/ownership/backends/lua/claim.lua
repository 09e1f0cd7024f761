-- Creates the lease of an unowned unit.
-- A: node, token, unit, grace_ms.

local node, token, unit, grace_ms = unpack(A)
if not live_session('holder', node, token) then return {'fenced'} end
local lease = read_json(LEASES, unit)
if lease then return {'held', lease.node} end

local wait_ms = data_since() + grace_ms - NOW
if wait_ms > 0 then return {'wait', ms(wait_ms)} end
return {'ok', grant(unit, node, 'warming')}
