"""What the two gRPC services share: authentication, tenancy, errors on the wire, and the server."""
