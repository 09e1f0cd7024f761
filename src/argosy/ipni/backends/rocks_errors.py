"""What RocksDB says when it fails, by remedy."""

from pathlib import Path

from rocksdict import DbClosedError

from argosy.base.errors import ArgosyError, Invalid, Unavailable

_LOCKED = ("/LOCK:", "lock hold by current process")
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_DAMAGED = ("Corruption", "CURRENT file does not end", "does not match any column", "Column families not opened")


class told:
    """Any error inside, in our own words. A class, since a generator would cost every find some microseconds."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        # The binding raises plain Exception, with RocksDB's words in it.
        if kind is Exception or kind is DbClosedError:
            raise _translated(self._path, str(error)) from error


def _translated(path: Path, said: str) -> ArgosyError:
    text = " ".join(said.split())  # RocksDB's words may have several lines
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
