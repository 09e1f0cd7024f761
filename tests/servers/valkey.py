"""A real Valkey server for tests: the one that the benchmarks start."""

from argosy.base.backends.servers import Valkey, free_ports

__all__ = ["Valkey", "free_port"]


def free_port() -> int:
    return free_ports(1)[0]
