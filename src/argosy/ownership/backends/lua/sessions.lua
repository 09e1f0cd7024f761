-- Lists the live sessions: role, milliseconds left and stored record of each.

local reply = {}
for role, key in pairs(EXPIRY) do
  local nodes = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for n = 1, #nodes, 2 do
    reply[#reply + 1] = {role, ms(nodes[n + 1] - NOW), redis.call('HGET', INFO[role], nodes[n])}
  end
end
return reply
