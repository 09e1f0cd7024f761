-- Adds changes to the buckets of a row: each counts as of its own time, and the newest time is stored. A batch number of
-- an instance that was applied before changes nothing.

local is_duplicate = tonumber(NUMBER) <= tonumber(stored[4] or 0)
return apply(is_duplicate, function(delta, delta_ms, prob, at_ms)
  if delta_ms >= at_ms then return decay(prob, at_ms, delta_ms) + delta, delta_ms end
  return prob + decay(delta, delta_ms, at_ms), at_ms
end)
