-- Restores the buckets of a row that was lost: the greater value wins, so that any number of instances may restore it, any
-- number of times. The batch number is 0, because a restore is not one of an instance's numbered batches.

return apply(false, function(prob, prob_ms, known, known_ms)
  local latest_ms = math.max(prob_ms, known_ms)
  return math.max(decay(prob, prob_ms, latest_ms), decay(known, known_ms, latest_ms)), latest_ms
end)
