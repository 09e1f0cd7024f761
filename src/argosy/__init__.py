"""Argosy: a self-hosted search fleet. Each room below is usable alone; ARCHITECTURE.md is the map."""

__version__ = "0.1.0"
