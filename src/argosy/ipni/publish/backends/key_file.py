"""A publisher's private key in a file that only its owner may read, as base64 of libp2p's encoding."""

import base64
import binascii
import os
from pathlib import Path

from argosy.base.errors import Invalid
from argosy.ipni.formats.peer import PrivateKey

# The largest RSA key that is accepted takes less than half of it.
KEY_FILE_BYTES_MAX = 16384


def open_key(path: Path) -> PrivateKey:
    """Reads the key from the file; creates key and file if there is none."""
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
        raise Invalid(
            f"{path} does not contain a private key; expected one line of base64 in libp2p's encoding"
        ) from None


def _create_key(path: Path) -> PrivateKey:
    """Writes the whole file under another name, then links it: of two processes that start at once, both use one
    key."""
    key = PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file:
        file.write(base64.b64encode(key.to_protobuf()) + b"\n")
        file.flush()
        # Before it gets its name, so that a crash never leaves a key file without a key.
        os.fsync(handle)
    try:
        os.link(partial, path)
    except FileExistsError:
        return read_key(path)
    finally:
        partial.unlink()
    # The directory too, or a crash of the machine could lose the name: the next start would create another identity.
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return key
