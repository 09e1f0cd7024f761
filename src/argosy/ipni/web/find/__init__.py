"""The find API: routes, the fast path of `GET /multihash` and `/cid`, and finds answered in the connection."""
