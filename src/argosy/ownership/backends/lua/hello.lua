-- Greets the store: marks new data with the schema's version, and sees which run of the server this is.
-- A: schema. Returns the version that the data has.

redis.call('HSETNX', META, 'schema', A[1])
since()
return redis.call('HGET', META, 'schema')
