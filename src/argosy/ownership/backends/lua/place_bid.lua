-- Bids for a unit; the first bid opens the auction and fixes its window and threshold.
-- A: node, token, unit, free_bytes, min_bytes, max_bids ('' for the number of members that bid now), bids_max, window_ms,
-- buffer_ms (how long after the window a pending mark stands at most), rivals (JSON).

local node, token, unit, free_bytes, min_bytes, max_bids, bids_max, window_ms, buffer_ms, rivals = unpack(A)

local function open_auction()
  -- A crashed node's two sessions end at different times: whose leases have fallen will not bid either.
  local count = max_bids ~= '' and tonumber(max_bids) or redis.call('ZINTERCARD', 2, BIDDING, HOLDERS)
  local auction = {
    id = int(redis.call('HINCRBY', META, 'sequence', 1)),
    max_bids = math.min(tonumber(bids_max), math.max(1, count)),
    opened_ms = ms(NOW),
    closes_ms = ms(NOW + window_ms),
  }
  redis.call('HSET', AUCTIONS, unit, cjson.encode(auction))
  tell('auction_opened', cjson.encode({unit = unit, id = auction.id, max_bids = auction.max_bids, closes_in_ms = window_ms}))
  return auction
end

local holder = living('holder', node, token)
if not holder then return {'fenced'} end

local mark = decoded(PENDING, node)
if mark and NOW < tonumber(mark.expires_ms) then return {'already_pending'} end  -- OWN-3
if tonumber(free_bytes) < tonumber(min_bytes) then return {'below_minimum'} end
if redis.call('HEXISTS', LEASES, unit) == 1 or holds_any(node, cjson.decode(rivals)) then return {'not_open'} end

-- Nobody closed the auction that this node waits for. Its mark no longer binds it, and with the mark goes the bid, for a
-- node that bid twice could win twice.
if mark then withdraw(node, mark.unit) end

local auction = decoded(AUCTIONS, unit)
local has_opened = not auction
if has_opened then auction = open_auction() end
redis.call('HSET', bids_of(unit), node, cjson.encode({
  free_bytes = free_bytes, order = int(redis.call('HINCRBY', META, 'sequence', 1)), token = token, address = holder.address,
}))
redis.call('HSET', PENDING, node, cjson.encode({unit = unit, expires_ms = ms(auction.closes_ms + buffer_ms)}))
local is_full = redis.call('HLEN', bids_of(unit)) >= auction.max_bids
return {'placed', has_opened and 1 or 0, is_full and 1 or 0, auction.max_bids}
