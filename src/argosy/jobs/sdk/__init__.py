"""Client and worker of the job broker; `argosy.jobs` exports the public names.

Reading order: `client` and `worker`, `handlers` and `context` (what a handler is and gets), `shard_map` and
`backends/router` (how a call finds its node), `ports`, `grpc` and `backends/local` (how a call reaches a node),
`validation`, `payload_codec`, `info` and `errors` (requests and responses as Python values).
"""
