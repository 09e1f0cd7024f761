"""Modules of base that do I/O or need optional packages; imported by `app`, backends, benchmarks and tests."""
