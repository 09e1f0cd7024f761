-- Closes a due auction in one step: ranks the bids, grants the lease, deletes bids and pending marks. Of several callers
-- exactly one closes it (OWN-6); the others get 'already_closed'.
-- A: unit, grace_ms, rivals (JSON).

local unit, grace_ms, rivals = A[1], A[2], cjson.decode(A[3])

-- Best first, in the order of `rank` in model.py.
local function ranked_bids()
  local bids, flat = {}, redis.call('HGETALL', bids_of(unit))
  for n = 1, #flat, 2 do
    local bid = cjson.decode(flat[n + 1])
    bids[#bids + 1] = {
      node = flat[n], token = bid.token, free_bytes = tonumber(bid.free_bytes), order = tonumber(bid.order),
    }
  end
  table.sort(bids, function(a, b)
    if a.free_bytes ~= b.free_bytes then return a.free_bytes > b.free_bytes end
    if a.order ~= b.order then return a.order < b.order end
    return a.node < b.node
  end)
  return bids
end

-- The next best bid wins if the best bidder's session has ended, so that its loss does not cost another auction.
local function select_winner(bids)
  if redis.call('HEXISTS', LEASES, unit) == 1 then return nil end
  for _, bid in ipairs(bids) do
    if live_session('holder', bid.node, bid.token) and not holds_any(bid.node, rivals) then return bid.node end
  end
  return nil
end

local auction = read_json(AUCTIONS, unit)
if not auction then return {'already_closed'} end

local bids = ranked_bids()
local is_full = #bids >= auction.max_bids
local due_ms = math.max(is_full and NOW or tonumber(auction.closes_ms), data_since() + grace_ms)
if NOW < due_ms then return {'not_due', ms(due_ms - NOW)} end

redis.call('HDEL', AUCTIONS, unit)
redis.call('DEL', bids_of(unit))
for _, bid in ipairs(bids) do redis.call('HDEL', PENDING, bid.node) end

local winner = select_winner(bids)
local lease = winner and grant(unit, winner, 'warming') or ''
publish('auction_closed', cjson.encode({unit = unit, id = auction.id, winner = winner or cjson.null}))
local is_short_circuit = is_full and NOW < tonumber(auction.closes_ms)
return {
  winner and 'won' or 'no_winner', lease, #bids, is_short_circuit and 1 or 0, ms(NOW - auction.opened_ms),
}
