"""The program on the registry's page is complete: it runs unchanged."""

import ast
import re
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from argosy.registry import jobs
from tests.architecture.tree import ROOT

PAGE = (ROOT / "docs" / "registry.md").read_text()


async def test_the_example_opens_a_registry_and_claims_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [program] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    code = compile(program, "docs/registry.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await FunctionType(code, names)()
    store = names["store"]
    try:
        assert names["job"] is None  # nothing has been queued in a new registry
        await store.run(jobs.enqueue("nightly", "rebuild", {}))
        assert (await store.run(names["jobs"].claim("worker-1", lease_ms=30_000))).job_id == "nightly"
    finally:
        await store.close()
    assert (tmp_path / "registry.db").exists()
