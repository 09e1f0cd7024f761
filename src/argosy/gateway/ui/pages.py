"""Templates become pages, and the headers that every page carries.

A template escapes all it is given, except lines of code that `marking` has already escaped. Nothing is loaded from
elsewhere and no script or style stands inside a page: the policy that browsers are told forbids both.
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
    "referrer-policy": "same-origin",  # what somebody searches for is nobody else's business
    "cache-control": "no-store",  # the fleet changes, and so do indexes
}


class Pages:
    """The templates; `asset` tells the address of a file beside them."""

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
        """The page. What is no text, such as the odd bytes of a file's name, is shown as a question mark."""
        page = self._environment.get_template(template).render(values)
        return page.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()
