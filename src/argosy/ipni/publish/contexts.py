"""Names of contexts: what is published together, superseded together and removed together.

A context is `what@version`: when a new version is published, the one before is removed. The wire allows 64 bytes, so a
long name is cut and told apart by its hash, the same way each time.
"""

from hashlib import sha256

from argosy.base.errors import Invalid
from argosy.ipni.model import CONTEXT_BYTES_MAX

VERSION_CHARS_MAX = 20  # of a commit or digest: 80 bits, enough to tell versions of one thing apart
_SIGN = b"@"
_MARK_CHARS = 12


def context_of(name: str, version: str) -> bytes:
    """The context of one version; `beginning_of(name)` is common to all versions, and to no other name's."""
    if not version or "@" in version or not version.isascii():
        raise Invalid(f"a version is an ASCII text without @, not {version!r}")
    return beginning_of(name) + version[:VERSION_CHARS_MAX].encode()


def beginning_of(name: str) -> bytes:
    text = name.encode("utf-8", "surrogateescape")
    room = CONTEXT_BYTES_MAX - VERSION_CHARS_MAX - len(_SIGN)
    if not text:
        raise Invalid("a context needs a name")
    if len(text) <= room and _SIGN not in text:
        return text + _SIGN
    mark = sha256(text).hexdigest()[:_MARK_CHARS].encode()
    return text[: room - _MARK_CHARS - 1].replace(_SIGN, b"_") + b"~" + mark + _SIGN
