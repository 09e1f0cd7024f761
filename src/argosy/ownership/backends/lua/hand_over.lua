-- Gives a unit to the holder of a ready sibling slot, in one step.
-- No grace is waited for: both holders are known, and one of them asks.
-- A: node, token, unit, epoch, to.

local node, token, unit, epoch, to = unpack(A)
local heir = decoded(LEASES, to)
if not held(node, token, unit, epoch) or not heir or heir.state ~= 'ready' then return {'not_held'} end

drop(unit, node)
local lease = grant(unit, heir.node, 'ready')
drop(to, heir.node)  -- told last: at no point does the heir think that it holds nothing of the unit
return {'ok', lease}
