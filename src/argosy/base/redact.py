"""Redaction: what must never be shown to people, in logs, in settings pages or on spans.

A value whose name says it is secret is shown as `***`. Within any text the passwords of URLs are masked, and so are
values written beside a secret name (`?token=…`, `password='…'`). Where a text could be read both ways more is masked
rather than less: an address that is hard to read can be looked up, a password that was logged must be changed.
"""

import re

MASK = "***"

_SECRET = "password|passwd|secret|token|authorization|credential|api_?key"
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)

# The patterns begin with fixed text and what follows is bounded or consumed, so that a long line costs one pass.
# A password should be percent-encoded but often is not, so it runs to the last @ before a blank or the next URL. What
# looks like a port (`http://host:80/mail?to=a@b`) is none.
_URL_PASSWORD = re.compile(r"(://[^\s:/@?#]*):(?!\d{1,5}(?:[/?#\s]|$))(?:(?!://)\S)*@")
# A user without a password is a name in ssh://git@host, but an access token in https://token@host.
_URL_TOKEN = re.compile(r"((?:(?<=http)|(?<=https))://)[^\s/?#@:]+@", re.IGNORECASE)
_NAMED_VALUE = re.compile(
    rf"((?:{_SECRET})[\w-]{{0,32}}(?:=|['\"]\s{{0,4}}:\s{{0,4}}))('[^']*'?|\"[^\"]*\"?|[^\s&#,;)}}'\"]+)", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Whether a field of this name is to be masked whatever it holds."""
    return _SECRET_NAME.search(name) is not None


def redact(text: str) -> str:
    """`text` with the passwords in its URLs and the values beside secret names masked."""
    if "://" in text:
        text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
        text = _URL_TOKEN.sub(rf"\1{MASK}@", text)
    if "=" in text or ":" in text:
        text = _NAMED_VALUE.sub(rf"\1{MASK}", text)
    return text
