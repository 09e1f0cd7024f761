"""The log file: limited in size, and readable by its owner only, because logs contain names and addresses."""

import os
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from argosy.base.errors import Invalid

FILE_BYTES_MAX = 10 * 1024 * 1024
OLDER_FILES_MAX = 2  # argosy.log.1 and argosy.log.2


class LogFile(RotatingFileHandler):
    """Appends to a file; a file that reaches its limit is renamed, and the oldest one is deleted."""

    def __init__(self, path: Path, *, bytes_max: int = FILE_BYTES_MAX) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            super().__init__(
                path, maxBytes=bytes_max, backupCount=OLDER_FILES_MAX, encoding="utf-8", errors="backslashreplace"
            )
        except OSError as error:
            raise Invalid(
                f"cannot open log file {path}: {error.strerror}; set node.data_dir to a writable directory, "
                "or use --verbose"
            ) from error

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags, 0o600)
        os.fchmod(descriptor, 0o600)  # also for an existing file
        return os.fdopen(descriptor, "a", encoding=self.encoding, errors=self.errors)
