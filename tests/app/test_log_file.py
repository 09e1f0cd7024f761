"""The log file: bounded, private, and an error that says what to do where it cannot be written."""

import logging
import stat
from pathlib import Path

import pytest

from argosy.app.console import OLDER_FILES_MAX, LogFile
from argosy.base.errors import Invalid

BYTES_MAX = 1000


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("argosy", logging.INFO, __file__, 1, text, None, None)


def test_old_lines_are_deleted_and_all_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "argosy.log"
    path.parent.mkdir()
    path.write_text("from an older version\n")
    path.chmod(0o644)
    handler = LogFile(path, bytes_max=BYTES_MAX)
    for number in range(200):
        handler.emit(record(f"line {number} " + "x" * 40))
    handler.close()
    files = sorted(path.parent.iterdir())
    assert len(files) == 1 + OLDER_FILES_MAX
    assert all(file.stat().st_size <= BYTES_MAX for file in files)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * len(files)
    assert "line 199" in path.read_text()


def test_a_line_that_is_no_text_is_escaped(tmp_path: Path) -> None:
    handler = LogFile(tmp_path / "argosy.log")
    handler.emit(record("path \udcff"))
    handler.close()
    assert (tmp_path / "argosy.log").read_text() == "path \\udcff\n"


def test_a_folder_that_cannot_be_created_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(Invalid, match=r"cannot open log file .*set node\.data_dir"):
        LogFile(tmp_path / "logs" / "argosy.log")
