"""Reads publishers' chains over HTTP and verifies everything.

Reading order: `url_policy` (which addresses may be read), `fetcher` (one bounded GET), `client` (a publisher's chain).
"""
