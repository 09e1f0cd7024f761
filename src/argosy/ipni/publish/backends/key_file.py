"""A publisher's private key in a file that only its owner may read, as base64 of what libp2p writes."""

import base64
import binascii
import os
from pathlib import Path

from argosy.base.errors import Invalid
from argosy.ipni.formats.peer import PrivateKey

KEY_FILE_BYTES_MAX = 16384


def open_key(path: Path) -> PrivateKey:
    """The key in the file; a new one is made, and kept there, if there is none."""
    try:
        return read_key(path)
    except FileNotFoundError:
        return _create_key(path)


def read_key(path: Path) -> PrivateKey:
    with path.open("rb") as file:
        text = file.read(KEY_FILE_BYTES_MAX)
    try:
        return PrivateKey.from_protobuf(base64.b64decode(text.strip(), validate=True))
    except (Invalid, binascii.Error):
        raise Invalid(f"{path} holds no private key: it is one line of base64, as libp2p writes it") from None


def _create_key(path: Path) -> PrivateKey:
    """Written whole under another name first, and linked: of two that begin at once, both go on with one key."""
    key = PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True)
    passing = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(base64.b64encode(key.to_protobuf()) + b"\n")
        file.flush()
        os.fsync(handle)
    try:
        os.link(passing, path)
    except FileExistsError:
        return read_key(path)
    finally:
        passing.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return key
