-- One page of an index that lists a whole table, or all counters. A: what it lists (rows, values, counters), the index,
-- what the keys begin with, the field that the index is ordered by (or ''), the order and the member that the page begins
-- behind ('-inf' and '' at first), its length.
--
-- Returns the entries with what they stand for, and where the next page begins (nothing: this was the last). A row that
-- expired and came back may be listed twice; the entry that has its present order is the true one.

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
    local raw, ends = call('GET', key), call('PEXPIRETIME', key)
    return raw and int(ends) == score and {member, raw, ends} or nil
  end,
  counters = function(member, ends)
    local name = named(member)
    local value = call('GET', stem .. name)
    return value and {name, value, ends}
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
