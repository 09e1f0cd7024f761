"""The wire that existing clients speak: gRPC service `silo.v1.Silo` over a `Broker`."""
