-- Places a bid; the first bid opens the auction and fixes its window and threshold.
-- A: node, token, unit, free_bytes, min_bytes, max_bids ('' for the number of members bidding now), bids_max, window_ms,
-- buffer_ms (how long after the window a pending mark expires), rivals (JSON).

local node, token, unit, free_bytes, min_bytes, max_bids, bids_max, window_ms, buffer_ms, rivals = unpack(A)

local function open_auction()
  -- A crashed node's two sessions end at different times: without its holder session it cannot bid either.
  local count = max_bids ~= '' and tonumber(max_bids) or redis.call('ZINTERCARD', 2, BIDDING, HOLDERS)
  local auction = {
    id = int(redis.call('HINCRBY', META, 'sequence', 1)),
    max_bids = math.min(tonumber(bids_max), math.max(1, count)),
    opened_ms = ms(NOW),
    closes_ms = ms(NOW + window_ms),
  }
  redis.call('HSET', AUCTIONS, unit, cjson.encode(auction))
  publish('auction_opened', cjson.encode({unit = unit, id = auction.id, max_bids = auction.max_bids, closes_in_ms = window_ms}))
  return auction
end

local holder = live_session('holder', node, token)
if not holder then return {'fenced'} end

local mark = read_json(PENDING, node)
if mark and NOW < tonumber(mark.expires_ms) then return {'already_pending'} end  -- OWN-3
if tonumber(free_bytes) < tonumber(min_bytes) then return {'below_minimum'} end
if redis.call('HEXISTS', LEASES, unit) == 1 or holds_any(node, cjson.decode(rivals)) then return {'not_open'} end

-- The auction of this node's last bid was never closed, and its mark has expired. The old bid goes with the mark, because a
-- node with two bids could win twice.
if mark then withdraw(node, mark.unit) end

local auction = read_json(AUCTIONS, unit)
local has_opened = not auction
if has_opened then auction = open_auction() end
redis.call('HSET', bids_of(unit), node, cjson.encode({
  free_bytes = free_bytes, order = int(redis.call('HINCRBY', META, 'sequence', 1)), token = token, address = holder.address,
}))
redis.call('HSET', PENDING, node, cjson.encode({unit = unit, expires_ms = ms(auction.closes_ms + buffer_ms)}))
local is_full = redis.call('HLEN', bids_of(unit)) >= auction.max_bids
return {'placed', has_opened and 1 or 0, is_full and 1 or 0, auction.max_bids}
