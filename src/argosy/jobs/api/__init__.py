"""`argosy.jobs.v1`: the protocol of the SDK."""
