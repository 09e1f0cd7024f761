"""A label in the metadata: the name and the version of what a context holds, whole and for people to read.

The context itself has 64 bytes and may have to cut a name. A label is a protocol of ours beside those by which the
content can be fetched, with a number from the range that the table of codes keeps for private use; whoever does not
know it passes over it.
"""

from dataclasses import dataclass
from hashlib import sha256

from argosy.base.errors import Invalid
from argosy.ipni.formats import dag_cbor, metadata, varint
from argosy.ipni.model import CONTEXT_BYTES_MAX

VERSION_CHARS_MAX = 20  # of a commit or digest: 80 bits, enough to tell versions of one thing apart
_SIGN = b"@"
_MARK_CHARS = 12


def context_of(name: str, version: str) -> bytes:
    """The context of one version; `beginning_of(name)` is common to all versions, and to no other name's."""
    if not version or "@" in version or not version.isascii():
        raise Invalid(f"a version is an ASCII text without @, not {version!r}")
    return context_prefix(name) + version[:VERSION_CHARS_MAX].encode()


def context_prefix(name: str) -> bytes:
    text = name.encode("utf-8", "surrogateescape")
    room = CONTEXT_BYTES_MAX - VERSION_CHARS_MAX - len(_SIGN)
    if not text:
        raise Invalid("a context needs a name")
    if len(text) <= room and _SIGN not in text:
        return text + _SIGN
    mark = sha256(text).hexdigest()[:_MARK_CHARS].encode()
    return text[: room - _MARK_CHARS - 1].replace(_SIGN, b"_") + b"~" + mark + _SIGN


LABEL_CODE = 0x3A7605
LABEL_NAME_BYTES_MAX = 768  # of the 1024 that all metadata may have
LABEL_VERSION_CHARS_MAX = 128

_NAME = f"transport-{LABEL_CODE:#x}"


@dataclass(frozen=True)
class Label:
    """`name@version`: a repository and its commit, for one."""

    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name


def encode_label(label: Label) -> bytes:
    """The metadata of it, to be joined with that of other protocols."""
    name = label.name.encode("utf-8", "replace")[:LABEL_NAME_BYTES_MAX].decode("utf-8", "ignore")
    version = label.version.encode("ascii", "replace")[:LABEL_VERSION_CHARS_MAX].decode()
    return varint.encode(LABEL_CODE) + varint.encode_bytes(dag_cbor.encode({"name": name, "version": version}))


def decode_label(data: bytes) -> Label | None:
    """The label in the metadata; None if there is none that can be read, for anybody may write anything."""
    try:
        payload = next((found for name, found in metadata.protocols(data) if name == _NAME), None)
        node = None if payload is None else dag_cbor.decode(varint.decode_bytes(payload, 0)[0])
    except Invalid:
        return None
    match node:
        case {"name": str(name), "version": str(version)}:
            return Label(name, version)
    return None
