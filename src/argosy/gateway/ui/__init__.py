"""The web pages of the front door, made on the server; scripts only add comfort.

Reading order: `links` (the addresses of pages), `results`, `files`, `repos`, `fleet` (answers as
they are shown), `marking` and `colours` (lines of code), `pages` (templates), `service` (live), `http` (routes).
"""

from argosy.gateway.ui.http import Site, ui_routes

__all__ = ["Site", "ui_routes"]
