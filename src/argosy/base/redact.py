"""Redaction of secrets in logs, settings pages and spans.

A field with a secret name is shown as `***`. In any text the passwords of URLs are masked, and so are values beside a
secret name (`?token=…`, `password='…'`). An ambiguous text is masked: a masked address can be found elsewhere, but a
password that was logged must be changed.
"""

import re

MASK = "***"

_SECRET = "password|passwd|secret|token|authorization|credential|api_?key"
_SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)

# The patterns begin with fixed text and the rest is bounded or consumed, so a long line takes one pass.
# A password should be percent-encoded but often is not, so it extends to the last @ before a blank or the next URL. A
# port followed by a path (`http://host:80/mail?to=a@b`) is not a password.
_URL_PASSWORD = re.compile(r"(://[^\s:/@?#]*):(?!\d{1,5}(?:[/?#\s]|$))(?:(?!://)\S)*@")
# A user without a password is a user name in ssh://git@host, but an access token in https://token@host.
_URL_TOKEN = re.compile(r"((?:(?<=http)|(?<=https))://)[^\s/?#@:]+@", re.IGNORECASE)
_NAMED_VALUE = re.compile(
    rf"((?:{_SECRET})[\w-]{{0,32}}(?:=|['\"]\s{{0,4}}:\s{{0,4}}))('[^']*'?|\"[^\"]*\"?|[^\s&#,;)}}'\"]+)", re.IGNORECASE
)


def is_secret_name(name: str) -> bool:
    """Whether a field of this name is always masked."""
    return _SECRET_NAME.search(name) is not None


def redact(text: str) -> str:
    """`text` with the passwords in its URLs and the values beside secret names masked."""
    # Most log fields contain no URL, and looking for three characters is much cheaper than the patterns.
    if "://" in text:
        text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
        text = _URL_TOKEN.sub(rf"\1{MASK}@", text)
    if "=" in text or ":" in text:
        text = _NAMED_VALUE.sub(rf"\1{MASK}", text)
    return text
