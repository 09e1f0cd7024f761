-- Ends a session with its leases, bid and pending mark. No error if it has already ended.
-- A: role, node, token.

local role, node, token = unpack(A)
if live_session(role, node, token) then end_session(role, node) end
return {'ok'}
