"""A label in the metadata: the name and the version of what a context holds, whole and for people to read.

The context itself has 64 bytes and may have to cut a name. A label is a protocol of ours beside those by which the
content can be fetched, with a number from the range that the table of codes keeps for private use; whoever does not
know it passes over it.
"""

from dataclasses import dataclass

from argosy.base.errors import Invalid
from argosy.ipni.formats import dag_cbor, metadata, varint

CODE = 0x3A7605
NAME_BYTES_MAX = 768  # of the 1024 that all metadata may have
VERSION_CHARS_MAX = 128

_NAME = f"transport-{CODE:#x}"


@dataclass(frozen=True)
class Label:
    """`name@version`: a repository and its commit, for one."""

    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name


def encode(label: Label) -> bytes:
    """The metadata of it, to be joined with that of other protocols."""
    name = label.name.encode("utf-8", "replace")[:NAME_BYTES_MAX].decode("utf-8", "ignore")
    version = label.version.encode("ascii", "replace")[:VERSION_CHARS_MAX].decode()
    return varint.encode(CODE) + varint.prefixed(dag_cbor.encode({"name": name, "version": version}))


def label_of(data: bytes) -> Label | None:
    """The label in the metadata; None if there is none that can be read, for anybody may write anything."""
    try:
        payload = next((found for name, found in metadata.protocols(data) if name == _NAME), None)
        node = None if payload is None else dag_cbor.decode(varint.take(payload, 0)[0])
    except Invalid:
        return None
    match node:
        case {"name": str(name), "version": str(version)}:
            return Label(name, version)
    return None
