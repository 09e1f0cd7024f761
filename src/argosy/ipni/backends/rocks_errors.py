"""What RocksDB says when it fails, by remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rocksdict import DbClosedError

from argosy.base.errors import ArgosyError, Invalid, Unavailable

_LOCKED = ("/LOCK:", "lock hold by current process")
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_DAMAGED = ("Corruption", "CURRENT file does not end", "does not match any column", "Column families not opened")


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Any error inside, in our own words."""
    try:
        yield
    except (ArgosyError, AssertionError):
        raise
    except Exception as error:          # the binding raises plain Exception, with RocksDB's words in it
        if type(error) not in (Exception, DbClosedError):
            raise
        raise _translated(path, str(error)) from error


def _translated(path: Path, said: str) -> ArgosyError:
    text = " ".join(said.split())           # RocksDB's words may have several lines
    if any(sign in text for sign in _LOCKED):
        return Unavailable(f"the store {path} is open elsewhere: stop the other process, or use another folder")
    if any(sign in text for sign in _FULL):
        return Unavailable(f"the disk of the store {path} is full: free space, then restart ({text[:200]})")
    if any(sign in text for sign in _DAMAGED):
        return Invalid(
            f"the store {path} is damaged ({text[:200]}): move it away and start with an empty folder, "
            "which is filled again from the publishers"
        )
    if "closed" in text.lower():
        return Unavailable(f"the store {path} is closed: open it again")
    return Unavailable(f"the store {path} cannot be read or written: look at its disk ({text[:200]})")
