-- Called when a store is opened: writes the layout version into new data, and notices a new run of the server.
-- A: schema. Returns the layout version of the data.

redis.call('HSETNX', META, 'schema', A[1])
data_since()
return redis.call('HGET', META, 'schema')
