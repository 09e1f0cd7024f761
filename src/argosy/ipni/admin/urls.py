"""The URLs of an indexer's APIs, as they are kept and compared."""

from urllib.parse import urlsplit

from argosy.base.errors import Invalid


def checked_url(text: str) -> str:
    """A base URL as it is kept: http unless it says https, without a slash at its end."""
    url = text.strip()
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment:
        raise Invalid(f"{text!r} is not the URL of an HTTP API: write http://host:port or https://host")
    return url.rstrip("/")
