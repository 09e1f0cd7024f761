"""The web UI: pages rendered on the server, usable without scripts.

Reading order: `links` (URLs), `results`, `facets`, `files`, `repos`, `fleet` (view models), `highlight` (lines of
code), `pages` (templates), `live_updates`, `http` (routes).
"""

from argosy.gateway.ui.http import WebUi, ui_routes

__all__ = ["WebUi", "ui_routes"]
