"""The page of a file: its facts and where its links lead."""

from argosy.gateway.ui.files import OUTLINE_MAX, SHOWN_BYTES_MAX, SHOWN_LINES_MAX, file_view, outline_view
from argosy.gateway.ui.highlight import COLORED_CHARACTERS_MAX
from argosy.gateway.ui.links import web_url
from argosy.search.backends.git_metadata import url_templates
from argosy.search.fleet.model import FileText, OutlineEntry
from argosy.search.model import Branch, Repository

TEMPLATES = url_templates("github", "https://host.example/r")
REPOSITORY = Repository(
    "r",
    branches=(Branch("main", "a" * 40), Branch("old", "b" * 40)),
    file_url_template=TEMPLATES.file,
    commit_url_template=TEMPLATES.commit,
)


def text(content: bytes, **more: object) -> FileText:
    return FileText(REPOSITORY, "src/a b.py", content, "Python", branches=("main", "old"), **more)  # type: ignore[arg-type]


def test_a_permalink_names_the_commit_of_the_branch() -> None:
    assert file_view(text(b"x\n"), "").permalink == f"/r/r/-/src/a%20b.py?v={'a' * 40}"
    assert file_view(text(b"x\n"), "old").permalink == f"/r/r/-/src/a%20b.py?b=old&v={'b' * 40}"


def test_a_permalink_to_a_commit_no_longer_indexed_has_a_note_and_a_link_to_the_host() -> None:
    view = file_view(text(b"x\n"), "", version="d" * 40)
    [note] = view.notes
    assert note == "this link refers to commit dddddddddd, the index is at aaaaaaaaaa: lines may have moved"
    assert view.at_host == f"https://host.example/r/blob/{'d' * 40}/src/a%20b.py"
    assert file_view(text(b"x\n"), "", version="a" * 40).notes == ()


def test_the_way_down_is_linked_and_branches_can_be_changed() -> None:
    view = file_view(text(b"x\n"), "old")
    assert [str(crumb.name) for crumb in view.crumbs] == ["r", "src", "a b.py"]
    assert [crumb.url for crumb in view.crumbs[:2]] == ["/r/r?b=old", "/r/r/-/src/?b=old"]
    assert [(each.name, each.is_current) for each in view.branches] == [("main", False), ("old", True)]


def test_a_large_file_is_shown_without_colours_and_a_larger_one_in_part() -> None:
    plain = file_view(text(b"x = 1\n" * (COLORED_CHARACTERS_MAX // 6 + 1)), "")
    assert "without syntax colors" in plain.notes[0]
    assert plain.lines[0] == "x = 1"
    cut = file_view(text(b"x" * (SHOWN_BYTES_MAX + 1)), "")
    assert "truncated" in cut.notes[0]
    tall = file_view(text(b"\n" * (SHOWN_LINES_MAX + 1)), "")
    assert len(tall.lines) == SHOWN_LINES_MAX
    assert "truncated" in tall.notes[0]


def test_a_file_that_is_not_indexed_has_the_reason() -> None:
    view = file_view(text(b"", skipped="binary"), "")
    assert view.notes == ("content not indexed: binary",)
    assert view.facts == "Python"


def test_invalid_utf_8_has_a_note() -> None:
    assert "not valid UTF-8" in file_view(text(b"\xff\n"), "").notes[0]


def test_the_outline_knows_how_deep_things_lie_whichever_comes_first() -> None:
    outline = [OutlineEntry("m", "f", 1, parent=1), OutlineEntry("T", "type", 5), OutlineEntry("n", "f", 6, parent=0)]
    assert [each.depth for each in outline_view(outline)] == [1, 0, 2]
    round_about = [OutlineEntry("a", "f", 1, parent=1), OutlineEntry("b", "f", 2, parent=0)]
    assert len(outline_view(round_about)) == 2
    assert len(outline_view([OutlineEntry("x", "f", 1)] * (OUTLINE_MAX + 1))) == OUTLINE_MAX


def test_only_pages_of_the_web_become_links() -> None:
    assert web_url("https://host.example/x?y=1#z") == "https://host.example/x?y=1#z"
    for text in ("javascript:alert(1)", "data:text/html,x", "ssh://host/x", "https://host/'onclick='", "//host/x", ""):
        assert web_url(text) == ""
