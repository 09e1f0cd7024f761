-- Extends a session from now, and answers which units it holds at which epochs.
-- A: role, node, token, ttl_ms.

local role, node, token, ttl_ms = unpack(A)
if not living(role, node, token) then return {'fenced'} end
redis.call('ZADD', EXPIRY[role], ms(NOW + ttl_ms), node)

local reply = {'ok'}
if role == 'holder' then
  for _, unit in ipairs(held_by(node)) do
    reply[#reply + 1] = unit
    reply[#reply + 1] = redis.call('HGET', EPOCHS, unit)
  end
end
return reply
