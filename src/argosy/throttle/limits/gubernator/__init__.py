"""Gubernator's gRPC API: `gubernator.proto`, conversion to our model, a client, and a server."""
