-- Extends a session from now, and returns the units and epochs that it holds: a holder so notices leases that the server
-- has lost.
-- A: role, node, token, ttl_ms.

local role, node, token, ttl_ms = unpack(A)
if not live_session(role, node, token) then return {'fenced'} end
redis.call('ZADD', EXPIRY[role], ms(NOW + ttl_ms), node)

local reply = {'ok'}
if role == 'holder' then
  for _, unit in ipairs(units_of(node)) do
    reply[#reply + 1] = unit
    reply[#reply + 1] = redis.call('HGET', EPOCHS, unit)
  end
end
return reply
