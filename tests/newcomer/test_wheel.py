"""The wheel in a bare environment: a newcomer with pip and nothing else.

What `up`, `search`, `find`, `repo` and `config` need is in the default install. Any other command whose packages are
missing prints one line with a command that installs them.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from argosy.base.backends.servers import free_ports
from tests.architecture.tree import ROOT
from tests.journeys.fleet import eventually

UV = Path(sys.prefix) / "boot" / "bin" / "uv"
MISSING = re.compile(r"error: .+ needs the package (\S+), which is not installed: run `(.+)`\n")
# Commands that need more than the default install: these groups, and what is called with a Redis below.
JOBS = ("job ", "shard ", "worker ", "sim jobs")
REDIS = ("node ", "lease ", "auction ", "scale", "registry import", "registry memory", "throttle top")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A virtual environment with the wheel, its default dependencies and pip; removed at once, because it is large."""
    folder = tmp_path_factory.mktemp("bare") / "env with blanks"
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    pins = ["--constraints", str(ROOT / "requirements" / "run.txt")]
    # uv is faster; behind a proxy whose certificate only the system knows, pip gets through and uv does not.
    quick = [str(UV), "pip", "install", "-q", "--python", str(python), *pins, str(wheel)]
    if not UV.exists() or subprocess.run(quick, capture_output=True).returncode:
        subprocess.run([str(python), "-m", "pip", "install", "-q", *pins, str(wheel)], check=True)
    copy_kernels(next(folder.glob("lib/python3*/site-packages")))
    yield folder
    shutil.rmtree(folder)


def copy_kernels(site: Path) -> None:
    """Copies the compiled kernels of the checkout, because compiling them takes a minute. Numba identifies a source by
    its size and time, so the time is copied too."""
    for source in (ROOT / "src" / "argosy" / "search").rglob("*.py"):
        target = site / source.relative_to(ROOT / "src")
        shutil.copystat(source, target)
        for compiled in source.parent.glob(f"__pycache__/{source.stem}.*.nb?"):
            (target.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copy2(compiled, target.parent / "__pycache__")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A clean home, and ports at which nothing listens."""
    inherited = {
        name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR") or "PIP" in name
    }
    node, indexer = free_ports(2)
    return {
        **inherited,
        "HOME": str(tmp_path / "home"),
        "ARGOSY_NODE_PORT": str(node),
        "ARGOSY_IPNI_HTTP_PORT": str(indexer),
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "notes.txt").write_text("a harbour\n")
    (notes / "all.jsonl").touch()
    return notes


def argosy(bare: Path, *words: str, environment: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [bare / "bin" / "argosy", *words]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=120)


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def test_the_wheel_has_the_program_its_licence_and_its_manual_page(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "argosy/cli/root.py" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert any(name.endswith(".data/data/share/man/man1/argosy.1") for name in names)
    assert [name for name in names if "test" in name.split("/")[0] or "__pycache__" in name] == []


def test_the_wheel_has_no_adapters_of_other_products(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "argosy/bench/harness.py" in names
    adapters = {path.stem for path in (ROOT / "bench" / "peers").glob("*.py")} & {"environment", "job_queues", "zoekt"}
    assert len(adapters) == 3
    assert [name for name in names if name.startswith("bench/") or Path(name).stem in adapters] == []


def test_the_metadata_is_complete(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    for field in ("Summary", "License-Expression", "License-File", "Keywords", "Author", "Requires-Python"):
        assert metadata[field], field
    classifiers = metadata.get_all("Classifier") or []
    assert "Typing :: Typed" in classifiers
    assert any(each.startswith("Operating System :: POSIX") for each in classifiers)
    assert str(metadata.get_payload()).startswith("# Argosy")


def test_every_command_works_or_names_in_one_line_what_to_install(
    bare: Path, environment: dict[str, str], folder: Path
) -> None:
    script = Path(__file__).with_name("every_command.py")
    answer = subprocess.run(
        [bare / "bin" / "python", script], env=environment, cwd=folder, capture_output=True, text=True, timeout=290
    )
    assert answer.returncode == 0, answer.stderr
    results = json.loads(answer.stdout)
    assert len(results) > 150
    wrong = {
        path: result["stderr"]
        for path, result in results.items()
        if result["code"] not in (0, 1, 2) or "Traceback" in result["stderr"] + result["stdout"]
    }
    assert wrong == {}
    assert {path for path, result in results.items() if path.endswith("--help") and result["code"] != 0} == set()
    lacking = {path for path, result in results.items() if MISSING.fullmatch(result["stderr"])}
    needing = {path for path in results if path.startswith((*JOBS, *REDIS)) and not path.endswith("--help")}
    assert lacking == {*needing, "serve"}
    assert (results["search"]["code"], results["search"]["stdout"]) == (0, "notes.txt:1:a harbour\n")
    for path in ("find", "repo add", "repo list", "config show", "ipni status", "sim chaos", "bench"):
        assert "package" not in results[path]["stderr"]


def test_a_benchmark_runs_without_its_peers_and_reports_it(
    bare: Path, environment: dict[str, str], folder: Path
) -> None:
    words = ("bench", "ownership", "--quick", "--only", "lease.acquire.memory")
    answer = argosy(bare, *words, environment=environment, folder=folder)
    assert answer.returncode == 0, answer.stderr
    assert "leases/s" in answer.stdout
    assert (
        "- peers: not measured; their adapters are in a checkout of the repository only" in answer.stdout.splitlines()
    )


def test_the_command_in_the_hint_installs_what_is_missing(
    bare: Path, environment: dict[str, str], folder: Path
) -> None:
    words = ("registry", "check", "--url", "redis://127.0.0.1:1")
    first = argosy(bare, *words, environment=environment, folder=folder)
    match = MISSING.fullmatch(first.stderr)
    assert match is not None, first.stderr
    assert match[1] == "redis"
    assert shlex.split(match[2])[:4] == [str(bare / "bin" / "python"), "-m", "pip", "install"]
    assert "argosy" not in shlex.split(match[2])[4:]
    subprocess.run(match[2], shell=True, check=True, capture_output=True, env=environment)
    try:
        second = argosy(bare, *words, environment=environment, folder=folder)
    finally:  # the environment is bare again for the other tests
        remove = [bare / "bin" / "python", "-m", "pip", "uninstall", "-q", "-y", "redis", "hiredis"]
        subprocess.run(remove, check=True, capture_output=True, env=environment)
    assert second.returncode == 1
    assert "127.0.0.1:1" in second.stderr
    assert "package" not in second.stderr


@pytest.fixture
def server(bare: Path, environment: dict[str, str], folder: Path) -> Iterator[str]:
    command = [bare / "bin" / "argosy", "up", str(folder)]
    process = subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{environment['ARGOSY_NODE_PORT']}"
    finally:
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0, log
        assert "Traceback" not in log


def fetch(url: str, *, accept: str = "*/*") -> tuple[int, str]:
    """The status and the body; 0 while nothing listens."""
    try:
        with urlopen(Request(url, headers={"accept": accept}), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:  # Python 3.14 warns about one that is left open
            return error.code, error.read().decode()
    except URLError:
        return 0, ""


def test_up_serves_a_directory_and_pages_for_browsers(server: str) -> None:
    def finds() -> bool:
        status, body = fetch(f"{server}/v1/search?q=harbour")
        return status == 200 and [each["path"] for each in json.loads(body)["files"]] == ["notes.txt"]

    eventually(finds, within_s=90, what="a search is answered")
    status, body = fetch(f"{server}/nowhere", accept="text/html,*/*;q=0.8")
    assert (status, '<nav aria-label="Pages">' in body) == (404, True)
    status, body = fetch(f"{server}/nowhere")
    assert (status, json.loads(body)["error"]["kind"]) == (404, "NotFound")
