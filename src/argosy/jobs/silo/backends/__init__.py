"""What `silo.v1.Silo` asks of the process it runs in."""
