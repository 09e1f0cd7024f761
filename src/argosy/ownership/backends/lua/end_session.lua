-- Ends a session with all that hangs on it; a session that is gone already is no error.
-- A: role, node, token.

local role, node, token = unpack(A)
if living(role, node, token) then end_session(role, node) end
return {'ok'}
