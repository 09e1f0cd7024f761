"""Files and folders as they were indexed, branch by branch."""

import pytest

from argosy.base.errors import NotFound
from argosy.search.backends.memory import one_branch, several_branches
from argosy.search.fleet import repo_contents
from argosy.search.fleet.model import FileRequest, FolderRequest, OutlineEntry
from argosy.search.fleet.repo_contents import file_text, folder
from argosy.search.index.build import build
from argosy.search.index.index import Index
from argosy.search.skip_policy import Policy
from tests.search.fleet.node_fixture import CODE, odd


def names(index: Index, path: str = "", branch: str = "") -> tuple[str, ...]:
    return folder(index, FolderRequest(index.repository.name, path, branch)).names


def test_a_file_has_its_language_branches_version_and_outline() -> None:
    index = odd()
    file = file_text(index, FileRequest("odd", "both.py"))
    assert (file.path, file.content, file.language) == ("both.py", CODE + b"# both\n", "Python")
    assert (file.branches, file.version, file.skipped) == (("main", "dev"), "c0ffee", "")
    assert file.outline == (OutlineEntry("Ship", "class", 1), OutlineEntry("sail", "method", 2, 0))
    assert file.repository == index.repository


def test_the_version_is_that_of_the_requested_branch() -> None:
    index = odd()
    assert file_text(index, FileRequest("odd", "both.py", "dev")).version == "bead"
    assert file_text(index, FileRequest("odd", "both.py", "HEAD")).version == "c0ffee"


def test_each_branch_has_its_own_content() -> None:
    index = build(several_branches("r", {"main": {"a": b"one"}, "dev": {"a": b"two"}}), Policy())
    assert [file_text(index, FileRequest("r", "a", branch)).content for branch in ("", "main", "dev")] == [
        b"one",
        b"one",
        b"two",
    ]


def test_a_file_without_content_has_the_reason() -> None:
    file = file_text(odd(), FileRequest("odd", "lib/logo.png"))
    assert (file.content, file.skipped, file.outline) == (b"", "binary", ())


@pytest.mark.parametrize(
    "file_request", [FileRequest("odd", "lib"), FileRequest("odd", "dev.py"), FileRequest("odd", "both.py", "prod")]
)
def test_a_missing_path_is_reported(file_request: FileRequest) -> None:
    with pytest.raises(NotFound):
        file_text(odd(), file_request)


def test_a_long_outline_is_cut_and_its_parents_stay_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    index = build(one_branch("r", {"a.go": b"package a\nfunc (s *Ship) Sail() {}\ntype Ship struct{}\n"}), Policy())
    whole = file_text(index, FileRequest("r", "a.go")).outline
    sail = next(each for each in whole if each.name == "Sail")
    assert whole[sail.parent].name == "Ship"
    monkeypatch.setattr(repo_contents, "OUTLINE_ENTRIES_MAX", sail.parent)
    cut = file_text(index, FileRequest("r", "a.go")).outline
    assert [each.name for each in cut] == [each.name for each in whole[: sail.parent]]
    assert next(each for each in cut if each.name == "Sail").parent == -1


def test_a_folder_has_folders_first() -> None:
    index = odd()
    assert names(index) == ("bad\udcff/", "lib/", "both.py")
    assert names(index, "lib") == ("deep/", "logo.png")
    assert names(index, "/lib/deep/") == ("er.c",)
    assert names(index, "bad\udcff") == ("name\udcfe.py",)


def test_a_folder_is_as_the_branch_has_it() -> None:
    index = odd()
    assert names(index, "", "dev") == ("both.py", "dev.py")
    with pytest.raises(NotFound, match="folder not found: 'lib' on branch 'dev'"):
        names(index, "lib", "dev")
    with pytest.raises(NotFound, match=r"branch 'prod' of .* not found"):
        names(index, "", "prod")


def test_a_path_that_is_no_folder_is_reported() -> None:
    for path in ("nowhere", "both.py", "li"):
        with pytest.raises(NotFound, match="folder not found"):
            names(odd(), path)


def test_a_renewed_repository_shows_what_is_there_now() -> None:
    stays: dict[str | bytes, bytes] = {f"many/{i:02}": b"%d" % i for i in range(100)}
    first = build(one_branch("r", {**stays, "a/x": b"x", "a/y": b"y", "gone/z": b"z"}), Policy())
    index = build(one_branch("r", {**stays, "a/x": b"x", "a/new": b"new"}), Policy(), previous=first)
    assert len(index.parts) == 2, "the test is about an index that was incremental"
    assert names(index) == ("a/", "many/")
    assert names(index, "a") == ("new", "x")
    with pytest.raises(NotFound):
        file_text(index, FileRequest("r", "gone/z"))


def test_an_empty_repository_has_an_empty_top() -> None:
    assert names(build(one_branch("r", {}), Policy())) == ()


def test_a_long_folder_is_cut_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    index = build(one_branch("r", {f"{i}": b"x%d" % i for i in range(5)}), Policy())
    assert not folder(index, FolderRequest("r")).is_cut
    monkeypatch.setattr(repo_contents, "FOLDER_NAMES_MAX", 4)
    cut = folder(index, FolderRequest("r"))
    assert (cut.names, cut.is_cut) == (("0", "1", "2", "3"), True)
