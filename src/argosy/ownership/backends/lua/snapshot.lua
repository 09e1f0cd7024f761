-- The whole state of the space, and the position in the stream from which a watcher continues.
-- Returns the server's run_id, the number of the last event, the id of the last entry, leases, member records, auctions as
-- unit, JSON and milliseconds left, and max_bids ('' for none).

data_since()
local auctions, flat = {}, redis.call('HGETALL', AUCTIONS)
for n = 1, #flat, 2 do
  auctions[#auctions + 1] = {flat[n], flat[n + 1], ms(math.max(0, cjson.decode(flat[n + 1]).closes_ms - NOW))}
end
local last = redis.call('XREVRANGE', EVENTS, '+', '-', 'COUNT', 1)[1]
return {
  redis.call('HGET', META, 'run_id'),
  redis.call('HGET', META, 'facts') or '0',
  last and last[1] or '0-0',
  redis.call('HVALS', LEASES),
  redis.call('HVALS', MEMBER_INFO),
  auctions,
  redis.call('HGET', CONFIG, 'max_bids') or '',
}
