"""The pages over a small fleet: what they show, what they never show, and how they fail."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from html.parser import HTMLParser

import httpx
import pytest

from argosy.gateway.ui import WebUi
from argosy.gateway.ui.links import file_url, folder_url
from tests.gateway.throttle_fixture import RecordingThrottle
from tests.gateway.ui.ui_fixture import COMMIT, HARBOUR, HOSTILE_NAME, WILD, browse, fleet_of, serve_ui, web_of
from tests.gateway.zoekt.fleet_fixture import Fleet

NAME = HOSTILE_NAME.decode("utf-8", "surrogateescape")
BERTHS = file_url(HARBOUR, "src/harbour/berths.py")
PAGES = [
    "/", "/search?q=needle", "/search?q=needle&ctx=3&num=100", "/search?q=repo:.", "/search?q=nothing-like-it",
    "/search?q=foo+(bar", "/repos", "/repos?filter=wild&sort=memory&order=desc", "/fleet", "/help", folder_url(HARBOUR),
    folder_url(HARBOUR, "src/harbour"), BERTHS + "?q=needle", folder_url(WILD), file_url(WILD, NAME, query="needle"),
    file_url(WILD, "two\nlines.txt"), file_url(WILD, "logo.png"), file_url(WILD, "long.txt"),
    file_url(HARBOUR, "no/such.py"), "/r/no-such-repository",
]  # fmt: skip
VOID = {"meta", "link", "input", "img", "br", "rect"}


class Reader(HTMLParser):
    """Sees that what is opened is closed, and keeps what may not be in a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.faults: list[str] = []
        self.links: list[str] = []
        self.feed(page)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script" and "src" not in attributes:
            self.faults.append("a script stands in the page")
        self.faults += [f"{name}= on <{tag}>" for name in attributes if name.startswith("on") or name == "style"]
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        for name in ("href", "src", "action"):
            if name in attributes:
                self.links.append(attributes[name] or "")
        if tag == "input" and attributes.get("type") != "hidden" and "id" not in attributes:
            self.faults.append("an input without a label")

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else")


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    made = fleet_of(warming=["github.com/big/slow"])
    yield made
    made.close()


@pytest.fixture
async def client(fleet: Fleet) -> AsyncIterator[httpx.AsyncClient]:
    async with browse(fleet) as made:
        yield made


@pytest.mark.parametrize("address", PAGES)
async def test_every_page_is_valid_html_and_loads_nothing_from_elsewhere(
    client: httpx.AsyncClient, address: str
) -> None:
    answer = await client.get(address)
    page = Reader(answer.text)
    assert page.faults == []
    assert len(page.ids) == len(set(page.ids))
    away = {link for link in page.links if not link.startswith(("/", "#"))}
    assert {link for link in away if not link.startswith("https://github.com/argosy/harbour/")} == set()
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert re.search(r"<main id=\"main\">", answer.text)
    assert "<h1" in answer.text


async def test_every_link_of_a_page_has_a_target(client: httpx.AsyncClient) -> None:
    for address in ("/", "/search?q=needle", folder_url(HARBOUR), folder_url(WILD)):
        for link in Reader((await client.get(address)).text).links:
            if link.startswith("/") and "format=raw" not in link:
                found = await client.get(link, follow_redirects=True)
                expected = 503 if "slow" in link else 200
                assert (found.status_code, link) == (expected, link)


async def test_hostile_names_and_contents_are_only_text(client: httpx.AsyncClient) -> None:
    for address in ("/search?q=needle", file_url(WILD, NAME, query="needle"), folder_url(WILD), "/repos", "/fleet"):
        page = (await client.get(address)).text
        assert "<img src=x" not in page
        assert "<script>alert" not in page
        assert "<i>repo" not in page
        assert "javascript:" not in page


async def test_a_query_is_shown_as_it_was_typed_and_never_as_markup(client: httpx.AsyncClient) -> None:
    page = (await client.get("/search", params={"q": '"><script>x</script>'})).text
    assert "<script>x" not in page
    assert 'value="&#34;&gt;&lt;script&gt;x&lt;/script&gt;"' in page


async def test_results_show_matches_facets_and_what_is_missing(client: httpx.AsyncClient) -> None:
    page = (await client.get("/search?q=needle")).text
    assert "<mark>needle</mark>" in page
    assert "lang%3APython" in page
    assert "repo%3A%5Egithub%5C.com%2Fargosy%2Fharbour%24" in page
    assert "1 repository is missing: still being fetched or indexed" in page
    assert "github.com/big/slow" in page
    assert "1 very long line truncated" in page
    assert re.search(r'class="clip"[^>]*>… </span>x+ <mark>needle</mark> y+<span class="clip"', page)
    assert "36 more matches in this file" in page


async def test_show_more_links_to_the_next_step(client: httpx.AsyncClient) -> None:
    page = (await client.get("/search?q=needle&num=2")).text
    assert 'href="/search?q=needle&amp;num=50#f3"' in page
    assert page.count('<article class="file"') == 2
    all_of_them = (await client.get("/search?q=needle+count:all")).text
    assert "Show more files" not in all_of_them


async def test_a_query_that_cannot_be_read_is_pointed_at(client: httpx.AsyncClient) -> None:
    answer = await client.get("/search", params={"q": "foo (bar"})
    assert answer.status_code == 400
    assert '<pre class="pointed">foo (bar\n    ^</pre>' in answer.text
    assert 'value="foo (bar"' in answer.text


@pytest.mark.parametrize("address", ["/search?q=x&num=many", "/search?q=x&ctx=-1", "/repos?sort=colour", "/print?r=x"])
async def test_an_invalid_url_has_an_error_page_with_the_reason(client: httpx.AsyncClient, address: str) -> None:
    answer = await client.get(address)
    assert answer.status_code == 400
    assert "Bad request" in answer.text


@pytest.mark.parametrize("address", ["/nowhere", "/repos/x", "/%3Cscript%3Ealert(1)%3C/script%3E"])
async def test_an_address_that_does_not_exist_is_a_page_with_navigation(
    client: httpx.AsyncClient, address: str
) -> None:
    answer = await client.get(address, headers={"accept": "text/html,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    page = Reader(answer.text)
    assert page.faults == []
    assert {"/", "/repos", "/fleet", "/help"} <= set(page.links)
    assert "<h1>Not found</h1>" in answer.text
    assert "<script>alert" not in answer.text


async def test_a_program_at_an_address_that_does_not_exist_gets_json(client: httpx.AsyncClient) -> None:
    answer = await client.get("/nowhere", headers={"accept": "*/*"})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "NotFound")


async def test_a_query_about_repositories_lists_them(client: httpx.AsyncClient) -> None:
    page = (await client.get("/search?q=repo:harbour")).text
    assert "<strong>1 repository</strong>" in page
    assert "release/1.0" in page


async def test_no_query_leads_to_the_first_page(client: httpx.AsyncClient) -> None:
    assert (await client.get("/search?q=+")).headers["location"] == "/"
    assert "<mark>needle</mark>" in (await client.get("/?q=needle")).text


async def test_a_file_shows_its_text_outline_marks_and_links(client: httpx.AsyncClient) -> None:
    page = (await client.get(BERTHS + "?q=needle")).text
    assert page.count("<mark>") == 2
    assert 'id="L5"' in page
    assert 'href="#L9" title="class Ship, line 9"' in page
    assert f'href="{BERTHS}?v={COMMIT}"' in page
    assert f"https://github.com/argosy/harbour/blob/{COMMIT}/src/harbour/berths.py" in page
    assert "400        # metres" not in page  # it is color_syntax
    assert "# metres" in page


async def test_another_branch_shows_its_own_text(client: httpx.AsyncClient) -> None:
    page = (await client.get(BERTHS + "?b=release/1.0&q=needle")).text
    assert ">300<" in page
    assert page.count("<mark>") == 2
    answer = await client.get(BERTHS + "?b=no-such")
    assert answer.status_code == 404


async def test_a_name_of_two_lines_is_a_name(client: httpx.AsyncClient) -> None:
    answer = await client.get(file_url(WILD, "two\nlines.txt"))
    assert answer.status_code == 200
    assert "<code>needle</code>" in answer.text


async def test_a_file_without_content_has_the_reason(client: httpx.AsyncClient) -> None:
    page = (await client.get(file_url(WILD, "logo.png"))).text
    assert "content not indexed: binary" in page


async def test_a_folder_is_found_without_its_slash(client: httpx.AsyncClient) -> None:
    answer = await client.get(file_url(HARBOUR, "src/harbour"))
    assert answer.headers["location"] == folder_url(HARBOUR, "src/harbour")
    assert (await client.get(file_url(HARBOUR, "src/nothing"))).status_code == 404


async def test_a_path_after_the_name_of_a_repository_is_a_path_in_it(client: httpx.AsyncClient) -> None:
    answer = await client.get(f"/r/{HARBOUR}/src/harbour/berths.py?b=main")
    assert (answer.status_code, answer.headers["location"]) == (302, BERTHS + "?b=main")
    answer = await client.get(f"/r/{HARBOUR}?b=no-such-branch")
    assert (answer.status_code, "indexed branches:" in answer.text) == (404, True)


async def test_the_address_that_zoekt_has_for_a_file_leads_to_ours(client: httpx.AsyncClient) -> None:
    answer = await client.get("/print", params={"r": HARBOUR, "f": "src/harbour/berths.py", "b": "main"})
    assert answer.headers["location"] == BERTHS + "?b=main"


async def test_an_unready_repository_is_503_with_a_retry_time(client: httpx.AsyncClient) -> None:
    for address in (folder_url("github.com/big/slow"), "/search?q=needle+repo:slow"):
        answer = await client.get(address)
        assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
        assert "github.com/big/slow" in answer.text


async def test_repositories_are_listed_with_their_state(client: httpx.AsyncClient) -> None:
    page = (await client.get("/repos?sort=memory&order=desc")).text
    assert page.count('<span class="pill ready">') == 2
    assert page.count('<span class="pill warming">') == 1
    assert 'aria-sort="descending"' in page
    assert "github.com/big/slow" not in (await client.get("/repos?state=ready")).text


async def test_the_fleet_shows_its_nodes_and_the_part_that_changes_can_be_had_alone(client: httpx.AsyncClient) -> None:
    page, part = (await client.get("/fleet")).text, (await client.get("/ui/fleet/now")).text
    assert page.count('<article class="node"') == part.count('<article class="node"') == 2
    assert "<html" not in part
    assert 'class="tile ready"' in part


async def test_live_updates_are_events_and_do_not_prevent_a_server_from_stopping(fleet: Fleet) -> None:
    async with httpx.AsyncClient() as client, AsyncExitStack() as stack:
        async with serve_ui(fleet) as url:
            events = await stack.enter_async_context(client.stream("GET", f"{url}/ui/fleet/events"))
            assert events.headers["content-type"].startswith("text/event-stream")
            lines = events.aiter_lines()
            assert (await client.head(f"{url}/ui/fleet/events")).status_code == 200
            assert await anext(lines) == 'data: <section class="summary" aria-label="Summary">'
        attributes = [line async for line in lines]  # the server has stopped, and so has the stream
        assert all(line.startswith("data: ") or not line for line in attributes)


async def test_static_files_are_cached_by_browsers_under_versioned_urls(client: httpx.AsyncClient) -> None:
    links = [link for link in Reader((await client.get("/")).text).links if link.startswith("/ui/static/")]
    assert len(links) == len({*links}) + 2  # the sign is on the page three times
    for link in links:
        answer = await client.get(link)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert (await client.get("/ui/static/../http.py")).status_code == 404
    assert (await client.get("/ui/static/nothing.css")).status_code == 404


async def test_a_throttled_client_gets_a_page_with_the_time_to_wait(fleet: Fleet) -> None:
    throttle = RecordingThrottle()
    throttle.throttle_client()
    async with web_of(WebUi(fleet.gateway, throttle=throttle)) as client:
        for path in ("/search?q=needle", "/?q=needle"):
            answer = await client.get(path)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
            assert "Too many requests" in answer.text
            assert 'value="needle"' in answer.text
        assert (await client.get("/help")).status_code == 200
        assert (await client.get("/")).status_code == 200, "the home page is no search"
