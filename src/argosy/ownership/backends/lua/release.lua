-- Ends a lease, if this session holds the unit at this epoch.
-- A: node, token, unit, epoch.

local node, token, unit, epoch = unpack(A)
if not own_lease(node, token, unit, epoch) then return {'not_held'} end
end_lease(unit, node)
return {'ok'}
