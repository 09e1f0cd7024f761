-- Starts a session, unless another run of a node with this id has one.
-- A: role, node, token, ttl_ms, info (JSON), member (JSON), is_bidding.

local role, node, token, ttl_ms, info, member, is_bidding = unpack(A)
-- Later bids count on this: no session, and so no bid, is older than the server's newest run.
since()

local namesake = decoded(INFO[role], node)
if namesake and namesake.token ~= token then
  return {'in_use', namesake.member.address, ms(redis.call('ZSCORE', EXPIRY[role], node) - NOW)}
end
redis.call('ZADD', EXPIRY[role], ms(NOW + ttl_ms), node)
if namesake then return {'ok'} end

redis.call('HSET', INFO[role], node, info)
if role == 'member' then
  if is_bidding == '1' then redis.call('SADD', BIDDING, node) end
  tell('member_changed', member)
end
return {'ok'}
