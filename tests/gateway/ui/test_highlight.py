"""Lines of code as HTML: escaped, highlighted where the matches are, and otherwise the text."""

from html import unescape
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from argosy.gateway.ui.highlight import color_syntax, highlight_line, lines_of, spans_of, text_of
from argosy.search.model import Location, Range


class Reader(HTMLParser):
    """The text of a fragment, which parts of it are highlight_line, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.highlight_line, self.tags, self.depth = "", "", set[str](), 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self.depth += tag == "mark"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "mark"

    def handle_data(self, data: str) -> None:
        self.text += data
        self.highlight_line += data if self.depth else ""


def at(offset: int) -> Location:
    return Location(offset, 1, 1)


texts = st.text(st.sampled_from("ab<>&\"' \né€😀="), max_size=60)


@given(texts, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=5))
def test_a_text_with_marks_is_the_text_and_the_marks(text: str, ends: list[tuple[int, int]]) -> None:
    content = text.encode()
    bounds = [len(text[: min(place, len(text))].encode()) for pair in ends for place in sorted(pair)]
    ranges = [Range(at(first), at(last)) for first, last in zip(bounds[::2], bounds[1::2], strict=True)]
    spans = spans_of(content, ranges)
    lines = [Reader(str(line)) for line in lines_of(color_syntax(text, "Python"), spans)]
    assert "\n".join(line.text for line in lines) == text.removesuffix("\n")
    assert set().union(*(line.tags for line in lines)) <= {"mark", "span"}
    inside = {place for each in ranges for place in range(each.start.offset, each.end.offset)}
    expected = "".join(sign for number, sign in enumerate(text) if len(text[:number].encode()) in inside)
    assert "".join(line.highlight_line for line in lines) == expected.replace("\n", "")


def test_markup_in_a_file_stays_text() -> None:
    [line] = lines_of([("", '<script>alert("&")</script>')], [(1, 7)])
    assert line == "&lt;<mark>script</mark>&gt;alert(&#34;&amp;&#34;)&lt;/script&gt;"


def test_signs_that_turn_text_around_are_shown() -> None:
    [line] = lines_of([("s", "a\u202eb")])
    assert "U+202E" in line
    assert "\u202e" not in unescape(line)


def test_marks_outside_of_what_is_shown_are_left_out() -> None:
    ranges = [Range(at(8), at(12)), Range(at(13), at(15)), Range(at(30), at(31))]
    assert spans_of(b"abcdef", ranges, start=10) == [(0, 2), (3, 5)]


def test_bytes_that_are_no_text_count_as_one_character_each() -> None:
    content = b"\xff\xc3\xa9 needle"
    assert spans_of(content, [Range(at(4), at(10))]) == [(3, 9)]
    assert len(text_of(content)) == 9


def test_ends_of_lines_of_other_systems_are_not_shown() -> None:
    assert lines_of([("", "a\r\nb\r\n")]) == ["a", "b"]


def test_a_name_with_a_newline_is_one_line() -> None:
    assert highlight_line("a\nb", [(0, 1)]) == "<mark>a</mark> b"
