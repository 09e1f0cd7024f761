-- Tells a row that has lost its buckets what they were: the greater value stays, so any number of instances may tell it,
-- any number of times. The batch number is 0: a restore is nobody's batch.

return written(false, function(prob, prob_ms, known, known_ms)
  local latest_ms = math.max(prob_ms, known_ms)
  return math.max(decayed(prob, prob_ms, latest_ms), decayed(known, known_ms, latest_ms)), latest_ms
end)
