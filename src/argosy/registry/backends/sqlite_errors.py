"""Maps SQLite errors to Argosy errors: what failed, and how to fix it."""

from sqlite3 import Error

from argosy.base.errors import ArgosyError, Invalid, Unavailable

BUSY_MS = 10_000  # another process may hold the file this long before a call gives up

_REMEDIES: dict[str, tuple[type[ArgosyError], str]] = {
    "SQLITE_FULL": (Unavailable, "its disk is full: make room, then retry. What was answered before is safe"),
    "SQLITE_READONLY": (Unavailable, "it cannot be written: check the file's and its folder's owner, and the mount"),
    "SQLITE_BUSY": (Unavailable, f"another process has held it for {BUSY_MS} ms: retry with back-off"),
    "SQLITE_LOCKED": (Unavailable, "it is locked: retry with back-off"),
    "SQLITE_IOERR": (Unavailable, "its disk does not read or write: check the disk, then retry"),
    "SQLITE_CANTOPEN": (Invalid, "it cannot be opened: check that the folder exists and may be written to"),
    "SQLITE_PERM": (Invalid, "it may not be opened: check the file's owner"),
    "SQLITE_AUTH": (Invalid, "it may not be opened: check the file's owner"),
    "SQLITE_NOTADB": (Invalid, "it is not a SQLite database: name another file, or restore a copy"),
    "SQLITE_CORRUPT": (Invalid, "it is damaged: stop, keep the file, and restore a copy or import an export"),
    "SQLITE_NOMEM": (Unavailable, "memory is short: retry with back-off"),
}


def name_of(error: BaseException) -> str:
    """SQLite's own name of an error without its detail: SQLITE_IOERR_WRITE is SQLITE_IOERR."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(name.split("_")[:2])


def is_busy(error: BaseException) -> bool:
    return name_of(error) in ("SQLITE_BUSY", "SQLITE_LOCKED")


def to_argosy_error(error: BaseException, where: str) -> BaseException:
    """An error with a remedy if there is one; any other stays what it is, because nobody could handle it."""
    if not isinstance(error, Error) or name_of(error) not in _REMEDIES:
        return error
    kind, remedy = _REMEDIES[name_of(error)]
    made = kind(f"the registry {where} failed ({error}): {remedy}")
    made.__cause__ = error
    return made
