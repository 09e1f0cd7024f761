"""URLs from templates, as zoekt's clients evaluate them."""

import pytest

from argosy.gateway.zoekt.go_compat import evaluate_template, host_file_url
from argosy.search.backends.git_metadata import url_templates

FIELDS = {"Version": "abc", "Path": "dir/a b#c.go", "Branch": "main", "LineNumber": "7"}


@pytest.mark.parametrize(
    ("template", "url"),
    [
        ('{{URLJoinPath "https://h/o/r" "blob" .Version .Path}}', "https://h/o/r/blob/abc/dir/a%20b%23c.go"),
        ('{{ URLJoinPath "https://h/o/r/" "src/commit" .Version .Path }}?display=source',
         "https://h/o/r/src/commit/abc/dir/a%20b%23c.go?display=source"),
        ("https://h/?f={{.Path}};hb={{.Version}}", "https://h/?f=dir/a%20b%23c.go;hb=abc"),
        ('{{URLJoinPath "https://h/\\"q\\"" .Branch}}', 'https://h/"q"/main'),
        ("#L{{.LineNumber}}", "#L7"),
        ("{{.Unknown}}|{{exec .Path}}|{{}}|{{ .Path", "|||{{ .Path"),
        ("", ""),
    ],
)  # fmt: skip
def test_fields_and_joined_paths_are_filled_in_and_nothing_else_is(template: str, url: str) -> None:
    assert evaluate_template(template, FIELDS) == url


def test_a_line_has_its_fragment_and_a_repository_without_pages_has_no_address() -> None:
    templates = url_templates("github", "https://github.com/o/r")
    url = host_file_url(templates.file, templates.line, version="abc", path="a.go", branch="main", line=3)
    assert url == "https://github.com/o/r/blob/abc/a.go#L3"
    assert host_file_url(templates.file, templates.line, version="abc", path="a.go", branch="main").endswith("/a.go")
    assert host_file_url("", templates.line, version="abc", path="a.go", branch="main", line=3) == ""


def test_a_field_that_stands_alone_cannot_change_the_rest_of_the_address() -> None:
    template = "https://host/?p=o/r;f={{.Path}};hb={{.Version}}"
    url = host_file_url(template, "#l{{.LineNumber}}", version="c0ffee", path="a&b#c/d e.c", branch="main", line=7)
    assert url == "https://host/?p=o/r;f=a%26b%23c/d%20e.c;hb=c0ffee#l7"
