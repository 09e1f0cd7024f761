-- Creates a lease if there is none.
-- A: node, token, unit, grace_ms.

local node, token, unit, grace_ms = unpack(A)
if not living('holder', node, token) then return {'fenced'} end
local lease = decoded(LEASES, unit)
if lease then return {'held', lease.node} end

local wait_ms = since() + grace_ms - NOW
if wait_ms > 0 then return {'wait', ms(wait_ms)} end
return {'ok', grant(unit, node, 'warming')}
