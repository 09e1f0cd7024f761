"""The web UI: pages rendered on the server, usable without scripts.

Reading order: `links` (URLs), `results`, `files`, `repos`, `fleet` (view models), `highlight` and `syntax_colors`
(lines of code), `pages` (templates), `live_updates`, `http` (routes).
"""

from argosy.gateway.ui.http import Site, ui_routes

__all__ = ["Site", "ui_routes"]
