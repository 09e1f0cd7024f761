"""The client of Redis and Valkey that every store shares: one multiplexed connection per server, on hiredis.

    url = parse_redis_url("rediss+sentinel://:secret@s1,s2,s3/main")
    mux = RedisMux(url, clock=clock, random=random)
    await mux.call("GET", "key")

`url` has the grammar of URLs, which is the same for every store. `connection` is one socket that many callers share,
`mux` finds the primary and reconnects, `routes` sends each command of a batch to the node of a cluster that has its
key. `errors` turns error replies into `Unavailable` with advice, and `scripts` loads Lua from the packages that own it.

A call is sent once. It is sent again only where the server has answered that it did nothing (it does not know the
script, or another server has the key). A call whose connection breaks is `Unavailable` with the remark that it may
have taken effect; the caller can read the state, so the caller decides. Client libraries that retry by themselves
break that rule, which is why none is used here.
"""
