-- Hands a unit off to the holder of a ready sibling slot, in one step.
-- It does not wait for the grace period: both holders are known to the server, and the one that gives the unit up asks.
-- A: node, token, unit, epoch, to.

local node, token, unit, epoch, to = unpack(A)
local successor = read_json(LEASES, to)
if not own_lease(node, token, unit, epoch) or not successor or successor.state ~= 'ready' then return {'not_held'} end

end_lease(unit, node)
local lease = grant(unit, successor.node, 'ready')
end_lease(to, successor.node)  -- published last: the successor never sees itself without any slot of the unit
return {'ok', lease}
