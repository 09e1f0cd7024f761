-- Replaces the member record of a session.
-- A: role, node, token, info (JSON), member (JSON), is_bidding.

local role, node, token, info, member, is_bidding = unpack(A)
if not live_session(role, node, token) then return {'fenced'} end
if redis.call('HGET', INFO[role], node) == info then return {'ok'} end

redis.call('HSET', INFO[role], node, info)
if role == 'member' then
  redis.call(is_bidding == '1' and 'SADD' or 'SREM', BIDDING, node)
  publish('member_changed', member)
end
return {'ok'}
