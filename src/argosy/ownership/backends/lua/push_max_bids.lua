-- Sets, or with '' clears, the threshold of future auctions for nodes that use the pushed value.
-- A: max_bids, channel.

local max_bids, channel = unpack(A)
if max_bids == '' then redis.call('HDEL', CONFIG, 'max_bids') else redis.call('HSET', CONFIG, 'max_bids', max_bids) end
publish('max_bids_changed', cjson.encode({max_bids = tonumber(max_bids) or cjson.null}))
redis.call('PUBLISH', channel, max_bids)
return {'ok'}
