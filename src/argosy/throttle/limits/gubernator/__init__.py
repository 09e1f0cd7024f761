"""Gubernator's gRPC wire: `gubernator.proto`, messages to and from our model, a client, and a server."""
