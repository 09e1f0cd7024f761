"""The tree as the house tests see it: every file that is, or is about to be, in the repository."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "argosy"
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


@cache
def tracked() -> list[Path]:
    """Files git knows or would add; what .gitignore names is nobody's business."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for name in listed.split("\0") if name and (path := ROOT / name).is_file())


def texts() -> list[tuple[Path, str]]:
    """Every tracked file that is text."""
    found = []
    for path in tracked():
        content = path.read_bytes()
        if b"\0" not in content:
            found.append((path, content.decode("utf-8")))
    return found


def source_modules() -> list[Path]:
    """The modules of the package that people write and read."""
    return [p for p in tracked() if p.suffix == ".py" and p.is_relative_to(SOURCE) and not p.name.endswith(GENERATED)]


def modules_of_tests() -> list[Path]:
    return [p for p in tracked() if p.suffix == ".py" and p.is_relative_to(ROOT / "tests")]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path, line: int | None = None) -> str:
    """How a test names a place: the path from the root of the repository, and the line."""
    name = str(path.relative_to(ROOT))
    return name if line is None else f"{name}:{line}"
