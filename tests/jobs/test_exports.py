"""The exports of `argosy.jobs`, and the modules loaded by importing the client."""

import subprocess
import sys

import argosy.jobs

CLIENT_MODULES_MAX = 80  # of Argosy; a client that also loaded a broker had 201
BROKER = tuple(f"argosy.jobs.{name}" for name in ("backends", "cluster", "group_commit", "sql", "web"))


def modules_loaded_by(statement: str) -> list[str]:
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_the_client_loads_no_broker() -> None:
    loaded = modules_loaded_by("from argosy.jobs import JobsClient")
    assert "slatedb" not in loaded
    assert "argosy.ownership" not in loaded
    assert "argosy.jobs.shard.shard" not in loaded
    assert not [name for name in loaded if name.startswith(BROKER)]
    assert len([name for name in loaded if name.startswith("argosy")]) <= CLIENT_MODULES_MAX


def test_importing_the_package_loads_none_of_its_modules() -> None:
    assert not [name for name in modules_loaded_by("import argosy.jobs") if name.startswith("argosy.jobs.")]


def test_every_export_can_be_imported() -> None:
    for name in argosy.jobs.__all__:
        assert getattr(argosy.jobs, name) is not None
    assert set(argosy.jobs.__all__) <= set(dir(argosy.jobs))
