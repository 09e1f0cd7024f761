-- Ends a lease, if this session holds the unit at this epoch.
-- A: node, token, unit, epoch.

local node, token, unit, epoch = unpack(A)
if not held(node, token, unit, epoch) then return {'not_held'} end
drop(unit, node)
return {'ok'}
