"""What the two gRPC services share: who may ask, what an error is called on the wire, and the server itself."""
