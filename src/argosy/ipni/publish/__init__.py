"""Publishing: a signed chain of advertisements that is stored, served over HTTP and announced.

Reading order: `ports`, `publisher` (the chain), `http` (serving it), `head_announcer`, `files` (publishing
directories), `backends`.
"""
