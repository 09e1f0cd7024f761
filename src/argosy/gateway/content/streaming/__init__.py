"""Finds whose results are told while they arrive."""
