"""The files of the repository, as the architecture tests read them."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "argosy"
GENERATED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


@cache
def tracked_files() -> list[Path]:
    """Files that git tracks or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for name in output.split("\0") if name and (path := ROOT / name).is_file())


def text_files() -> list[tuple[Path, str]]:
    """Path and content of every tracked text file."""
    contents = ((path, path.read_bytes()) for path in tracked_files())
    return [(path, content.decode("utf-8")) for path, content in contents if b"\0" not in content]


def source_modules() -> list[Path]:
    """The hand-written modules of the package."""
    modules = [path for path in tracked_files() if path.suffix == ".py" and path.is_relative_to(SOURCE)]
    return [path for path in modules if not path.name.endswith(GENERATED)]


def modules_of_tests() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".py" and path.is_relative_to(ROOT / "tests")]


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def location(path: Path, line: int | None = None) -> str:
    """The path from the root of the repository, and the line."""
    name = str(path.relative_to(ROOT))
    return name if line is None else f"{name}:{line}"
