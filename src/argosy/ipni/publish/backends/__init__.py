"""Chains in memory and on disk, and the files that are published."""
