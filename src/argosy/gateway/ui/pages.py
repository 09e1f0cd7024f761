"""Renders templates, and defines the HTTP headers of every page.

Templates escape all values, except lines of code that `highlight` has escaped already. Pages load nothing from other
hosts and contain no inline scripts or styles; the content security policy forbids both.
"""

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from argosy.gateway.ui.links import file_url, folder_url, search_url
from argosy.gateway.ui.number_format import age_text, count_text, duration_text, size_text, version_text

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # queries must not leak to other sites
    "cache-control": "no-store",  # fleet and indexes change
}


class Pages:
    """The Jinja environment; `asset` maps the name of a static file to its URL."""

    def __init__(self, asset: Callable[[str], str]) -> None:
        self._environment = Environment(
            loader=PackageLoader("argosy.gateway.ui"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "size": size_text,
            "count": count_text,
            "duration": duration_text,
            "age": age_text,
            "version": version_text,
        }
        self._environment.globals |= {
            "asset": asset,
            "search_url": search_url,
            "folder_url": folder_url,
            "file_url": file_url,
        }

    def render(self, template: str, **values: Any) -> bytes:
        """Render a page. Bytes that are not UTF-8, as in odd file names, become replacement characters."""
        page = self._environment.get_template(template).render(values)
        return page.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()
