-- One page of an index that lists a whole table, or all counters. ARGV: what it lists (rows, values, counters), the index,
-- the prefix of the keys, the field that the index is ordered by (or ''), the order and the member after which the page
-- begins ('-inf' and '' at first), its length.
--
-- Returns the entries with their rows or counters, and where the next page begins (empty: this was the last one). A row
-- that expired and was written again may be listed twice; the entry with its current order is the valid one.

local kind, index, stem, order_field, order, after, limit = take(), take(), take(), take(), take(), take(), tonumber(take())

local content = {
  rows = function(member, score)
    local key = row_key(stem, member)
    if order_field ~= '' and call('HGET', key, order_field) ~= score then return nil end
    local flat, long = fetch(key)
    return flat and {member, flat, long}
  end,
  values = function(member, score)
    local key = stem .. ':' .. member
    local raw, expires = call('GET', key), call('PEXPIRETIME', key)
    return raw and int(expires) == score and {member, raw, expires} or nil
  end,
  counters = function(member, expires)
    local name = counter_name(member)
    local value = call('GET', stem .. name)
    return value and {name, value, expires}
  end,
}

local page, seen, place = {}, 0, {}
index_walk(index, order, '+inf', false, math.huge, function(member, score)
  if score == order and member <= after then return true end
  if seen == limit then return 'stop' end
  seen = seen + 1
  place = {score, member}
  page[#page + 1] = content[kind](member, score) or nil
  return true
end)
if seen < limit then place = {} end
return {page, place}
