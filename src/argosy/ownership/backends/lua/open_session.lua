-- Opens a session, unless another run of a node with this id has one.
-- A: role, node, token, ttl_ms, info (JSON), member (JSON), is_bidding.

local role, node, token, ttl_ms, info, member, is_bidding = unpack(A)
-- Bids rely on this: no session, and so no bid, is older than the server's latest run.
data_since()

local other = read_json(INFO[role], node)
if other and other.token ~= token then
  return {'in_use', other.member.address, ms(redis.call('ZSCORE', EXPIRY[role], node) - NOW)}
end
redis.call('ZADD', EXPIRY[role], ms(NOW + ttl_ms), node)
if other then return {'ok'} end

redis.call('HSET', INFO[role], node, info)
if role == 'member' then
  if is_bidding == '1' then redis.call('SADD', BIDDING, node) end
  publish('member_changed', member)
end
return {'ok'}
