"""What base needs from outside: one module per service, each imported only by whoever wires the process together."""
