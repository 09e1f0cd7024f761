"""Reads publishers' chains over HTTP and verifies everything."""
