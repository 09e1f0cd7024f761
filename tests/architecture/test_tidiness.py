"""Rules of style that a test can check: module and function sizes, nothing unfinished, no paths of one machine."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

from tests.architecture.tree import location, modules_of_tests, parse, source_modules, text_files, tracked_files

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
LINE_LENGTH_MAX = 120
BANNED_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc", "data2"}
# Written in pieces, so that this file does not match itself.
UNFINISHED = re.compile("|".join(["TO" + "DO", "FIX" + "ME", r"\bXX" + r"X\b", "Not" + "ImplementedError"]))
MACHINE_PATH = re.compile(r"(^|[^A-Za-z0-9_])/(wo" + r"rk|fa" + r"rm|ro" + r"ot)/", re.MULTILINE)
HOSTS = ["py" + "pi.org", "python" + "hosted", "npm" + "js.org", "crates" + ".io", "deb." + "debian"]
REGISTRY_HOST = re.compile("|".join(re.escape(host) for host in HOSTS))
ASSERTING = ("raises", "assert", "check", "verify", "expect", "warns")


def find_matches(pattern: re.Pattern[str], files: list[tuple[Path, str]]) -> list[str]:
    return [
        location(path, text.count("\n", 0, match.start()) + 1)
        for path, text in files
        for match in pattern.finditer(text)
    ]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_path_of_one_machine_and_no_registry_host_is_in_the_tree() -> None:
    files = [(path, text) for path, text in text_files() if path.suffix != ".svg"]
    assert find_matches(MACHINE_PATH, files) == []
    assert find_matches(REGISTRY_HOST, files) == []


def test_nothing_in_the_package_is_left_unfinished() -> None:
    sources = set(source_modules())
    assert find_matches(UNFINISHED, [(path, text) for path, text in text_files() if path in sources]) == []


def test_modules_are_short() -> None:
    lengths = {location(path): len(path.read_text().splitlines()) for path in source_modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX} == {}


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{location(path, node.lineno)} {node.name}: {lines} lines"
        for path in source_modules()
        for node in functions(path)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_every_module_has_a_docstring() -> None:
    written = [path for path in source_modules() if path.read_text().strip()]
    assert [location(path) for path in written if not ast.get_docstring(parse(path))] == []


def test_no_module_has_a_name_without_meaning() -> None:
    python = [*source_modules(), *modules_of_tests()]
    assert [location(path) for path in python if path.stem in BANNED_NAMES or path.parent.name in BANNED_NAMES] == []


def test_no_field_is_annotated_with_a_name_that_its_class_redefines() -> None:
    """Python 3.14 evaluates annotations late, in the class: a property `bytes` becomes the type of `data: bytes`."""
    found = [
        location(path, field.lineno)
        for path in source_modules()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign) and names_in(field.annotation) & defined_in(node)
    ]
    assert found == []


def names_in(annotation: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}


def defined_in(node: ast.ClassDef) -> set[str]:
    return {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_tests_do_not_sleep() -> None:
    nodes = ((path, node) for path in modules_of_tests() for node in ast.walk(parse(path)))
    asleep = [
        location(path, node.lineno) for path, node in nodes if is_sleep(node, is_virtual=path.parent.name == "sim")
    ]
    assert asleep == [], "wait for the event itself, or use the simulated clock"


def is_sleep(node: ast.AST, *, is_virtual: bool = False) -> TypeGuard[ast.Call]:
    """`time.sleep(…)`, or `asyncio.sleep(n)` where n is not 0 (which only yields) and time is not simulated."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sleep"):
        return False
    module = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
    seconds = node.args[0] if node.args else None
    is_nap = isinstance(seconds, ast.Constant) and seconds.value != 0
    return module == "time" or (module == "asyncio" and is_nap and not is_virtual)


def test_every_test_asserts_something() -> None:
    idle = [
        f"{location(path, node.lineno)} {node.name}"
        for path in modules_of_tests()
        for node in functions(path)
        if node.name.startswith("test_") and path.name.startswith("test_") and not asserts(node)
    ]
    assert idle == []


def asserts(node: ast.AST) -> bool:
    inner = list(ast.walk(node))
    calls = (call.func for call in inner if isinstance(call, ast.Call))
    names = [getattr(call, "attr", getattr(call, "id", "")).lower() for call in calls]
    has_helper = any(word in name for name in names for word in ASSERTING)
    return has_helper or any(isinstance(each, ast.Assert | ast.Raise) for each in inner)


def test_no_test_is_skipped() -> None:
    pattern = re.compile(r"pytest\.(skip|xfail)\(|pytest\.mark\.(skip|skipif|xfail)|import" + r"orskip")
    tests = set(modules_of_tests()) - {Path(__file__)}
    assert find_matches(pattern, [(path, text) for path, text in text_files() if path in tests]) == []


def test_every_lua_script_begins_with_a_comment() -> None:
    silent = [location(p) for p in tracked_files() if p.suffix == ".lua" and not p.read_text().startswith("--")]
    assert silent == []


def test_text_files_have_clean_whitespace() -> None:
    files = [(path, text) for path, text in text_files() if text and path.suffix not in {".svg", ".diff", ".patch"}]
    assert [location(path) for path, text in files if not text.endswith("\n")] == [], "end with a newline"
    assert [location(path) for path, text in files if "\r" in text] == [], "no carriage returns"
    assert find_matches(re.compile(r"[ \t]+$", re.MULTILINE), files) == [], "no blanks at the end of a line"


@pytest.mark.parametrize("line", ["time.sleep(0)", "time.sleep(delay)", "asyncio.sleep(0.1)"])
def test_a_sleep_is_found(line: str) -> None:
    assert is_sleep(ast.parse(line, mode="eval").body)


def test_a_path_of_one_machine_is_found() -> None:
    assert MACHINE_PATH.search("see /wo" + "rk/main/x")
    assert not MACHINE_PATH.search("a/work" + "load/x and teamwork/")
