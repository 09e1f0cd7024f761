"""The web pages in a real Chromium, over a real server and a small fleet in this process.

Set ARGOSY_SCREENSHOTS to a directory for screenshots.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from playwright.async_api import Error as PlaywrightError

from argosy.gateway.ui.links import file_url, folder_url
from argosy.ownership.events import AuctionOpened, LeaseChanged
from argosy.ownership.model import Auction, LeaseState, Unit
from tests.gateway.ui.ui_fixture import BERTHS as BERTHS_TEXT
from tests.gateway.ui.ui_fixture import COMMIT, HARBOUR, HOSTILE_NAME, WILD, fleet_of, serve_ui
from tests.gateway.zoekt.fleet_fixture import Fleet, lease
from tests.servers.chromium import chromium
from tests.servers.valkey import free_port

BERTHS = file_url(HARBOUR, "src/harbour/berths.py")
SLOW = "github.com/big/slow"
WIDE = {"width": 1280, "height": 900}
LIGHT_TEXT, DARK_TEXT = "rgb(27, 33, 48)", "rgb(227, 231, 238)"
NARROW = {"width": 390, "height": 844}
expect.set_options(timeout=20_000)  # a page loads within 0.1 s on an idle machine

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one browser for all


class Visit:
    """A page in the browser, and its console errors."""

    def __init__(self, page: Page, fleet: Fleet) -> None:
        self.page = page
        self.fleet = fleet
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    async def shot(self, name: str) -> None:
        if folder := os.environ.get("ARGOSY_SCREENSHOTS"):
            await self.page.screenshot(path=Path(folder) / f"{name}.png")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as running:
        yield running


@asynccontextmanager
async def visit(
    browser: Browser, *, is_dark: bool = False, is_narrow: bool = False, with_scripts: bool = True
) -> AsyncIterator[Visit]:
    """A fleet, its server, and a page in a browser profile of its own."""
    fleet = fleet_of(warming=[SLOW])
    async with serve_ui(fleet) as url:
        context = await browser.new_context(
            base_url=url,
            viewport=NARROW if is_narrow else WIDE,
            color_scheme="dark" if is_dark else "light",
            java_script_enabled=with_scripts,
            permissions=["clipboard-read", "clipboard-write"],
        )
        tab = Visit(await context.new_page(), fleet)
        yield tab
        assert tab.errors == []
        await context.close()
    fleet.close()


async def test_a_word_is_searched_narrowed_and_opened_at_its_line(browser: Browser) -> None:
    async with visit(browser) as tab:
        page = tab.page
        await page.goto("/")
        await expect(page.get_by_label("Search code")).to_be_focused()
        await tab.shot("home")
        await page.keyboard.type("needle")
        await page.keyboard.press("Enter")
        await expect(page.locator("mark").first).to_have_text("needle")
        await expect(page.get_by_label("Search code")).to_have_value("needle")
        await expect(page.locator(".notice").first).to_contain_text("1 repository is missing")
        await tab.shot("results")
        await page.get_by_role("complementary").get_by_role("link", name="Python").click()
        await expect(page.get_by_label("Search code")).to_have_value("needle lang:Python")
        await page.get_by_role("complementary").get_by_role("link", name=HARBOUR).click()
        await expect(page.locator("article.file")).to_have_count(2)  # its two branches
        await page.locator("a.path", has_text="berths.py").first.click()
        await expect(page.locator(".picked")).to_contain_text("needle")
        await expect(page.locator(".source mark")).to_have_count(2)
        await expect(page).to_have_url(re.compile("#L16$"))
        await tab.shot("file")


async def test_a_second_click_clears_a_facet(browser: Browser) -> None:
    async with visit(browser) as tab:
        page = tab.page
        await page.goto("/search?q=needle+lang:Go")
        await page.get_by_role("complementary").get_by_role("link", name="Go 1").click()
        await expect(page.get_by_label("Search code")).to_have_value("needle")


async def test_selected_lines_are_copied_as_a_permanent_link(browser: Browser) -> None:
    async with visit(browser) as tab:
        page = tab.page
        await page.goto(BERTHS)
        await page.locator("#L9 .no").click()
        await expect(page).to_have_url(re.compile("#L9$"))
        await page.locator("#L12 .no").click(modifiers=["Shift"])
        await expect(page).to_have_url(re.compile("#L9-L12$"))
        await expect(page.locator(".picked")).to_have_count(4)
        await page.get_by_role("button", name="Copy link").click()
        await expect(page.get_by_role("status")).to_have_text("Link copied")
        link = await page.evaluate("navigator.clipboard.readText()")
        assert link.endswith(f"{BERTHS}?v={COMMIT}#L9-L12")
        await page.goto(link)
        await expect(page.locator(".picked").first).to_have_id("L9")
        await expect(page.locator(".notice")).to_have_count(0)
        await page.get_by_role("link", name="moor").click()
        await expect(page.locator(".picked")).to_have_count(1)
        await expect(page.locator(".picked")).to_contain_text("def moor")


async def test_branches_can_be_switched_and_directories_browsed(browser: Browser) -> None:
    async with visit(browser) as tab:
        page = tab.page
        await page.goto(folder_url(HARBOUR))
        await page.get_by_role("link", name="src/").click()
        await page.get_by_role("link", name="harbour/").click()
        await page.get_by_role("link", name="berths.py").click()
        await expect(page.locator("#L5")).to_contain_text("400")
        await page.locator("details.menu summary").click()
        await page.get_by_role("link", name="release/1.0").click()
        await expect(page.locator("#L5")).to_contain_text("300")
        await page.get_by_label("Path").get_by_role("link", name="harbour", exact=True).click()
        await expect(page.locator(".entries li")).to_have_count(3)
        await page.goto(BERTHS)
        await page.get_by_role("link", name="Raw").click()
        await expect(page.locator("body")).to_contain_text("LENGTH_MAX = 400")


async def test_every_action_has_a_keyboard_shortcut(browser: Browser) -> None:
    async with visit(browser) as tab:
        page = tab.page
        await page.goto("/search?q=needle")
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await page.keyboard.press("k")
        await expect(page.locator("article.current")).to_have_id("f1")
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_be_hidden()
        await page.keyboard.press("/")
        await expect(page.get_by_label("Search code")).to_be_focused()
        await page.keyboard.type("berth j")
        await expect(page.get_by_label("Search code")).to_have_value("berth j")
        await page.keyboard.press("Escape")
        await page.keyboard.press("Enter")
        await expect(page.locator(".source")).to_be_visible()
        await page.keyboard.press("j")
        await expect(page.locator("mark.current")).to_be_visible()


async def test_the_fleet_page_updates_live(browser: Browser) -> None:
    async with visit(browser) as tab:
        page, view = tab.page, tab.fleet.view
        await page.goto("/fleet")
        await expect(page.locator("#live-word")).to_have_text("live")
        await expect(page.locator(".node")).to_have_count(2)
        await expect(page.get_by_label("Summary")).to_contain_text("1 warming")
        await tab.shot("fleet")
        now = asyncio.get_running_loop().time()
        view.apply(AuctionOpened(Auction(Unit("github.com/new/arrival"), 1, 3, 60.0)), now)
        view.apply(LeaseChanged(lease(SLOW, "n1:6071", LeaseState.DRAINING)), now)
        await expect(page.get_by_label("Auctions")).to_contain_text("github.com/new/arrival")
        await expect(page.get_by_label("Summary")).to_contain_text("1 draining")
        left = await page.locator("[data-countdown]").inner_text()
        await expect(page.locator("[data-countdown]")).not_to_have_text(left)


async def test_repositories_are_filtered_while_typing(browser: Browser) -> None:
    async with visit(browser) as tab:
        page = tab.page
        await page.goto("/repos")
        await expect(page.locator("#repos tbody tr:visible")).to_have_count(3)
        await page.get_by_label("Filter by name").fill("slow")
        await expect(page.locator("#repos tbody tr:visible")).to_have_count(1)
        await page.get_by_label("Filter by name").fill("nothing")
        await expect(page.locator("#none")).to_be_visible()
        await page.get_by_label("Filter by name").fill("")
        await page.get_by_role("link", name="Memory").click()
        await page.get_by_role("link", name="Memory").click()
        await expect(page.get_by_role("columnheader", name="Memory")).to_have_attribute("aria-sort", "descending")
        await tab.shot("repos")


async def test_hostile_names_and_contents_are_escaped(browser: Browser) -> None:
    async with visit(browser) as tab:
        page = tab.page
        page.on("dialog", lambda dialog: tab.errors.append(dialog.message))
        await page.goto(folder_url(WILD))
        await page.get_by_role("link", name="onerror").click()
        await expect(page.locator(".source")).to_contain_text('</code></div><script>alert("needle")</script>')
        await expect(page.locator("#L2")).to_contain_text("U+202E")
        assert await page.locator("main img, main script").count() == 0
        await page.goto(file_url(WILD, HOSTILE_NAME.decode("utf-8", "surrogateescape"), query="needle") + "#L2")
        await expect(page.locator(".picked")).to_have_id("L2")


async def test_a_narrow_page_never_scrolls_sideways(browser: Browser) -> None:
    pages = {
        "home": "/",
        "results": "/search?q=needle&ctx=3",
        "file": BERTHS + "?q=needle",
        "folder": folder_url(HARBOUR),
        "repos": "/repos",
        "fleet": "/fleet",
        "help": "/help",
        "listing": "/search?q=repo:.",
    }
    widths = {}
    async with visit(browser, is_narrow=True) as tab:
        for name, address in pages.items():
            await tab.page.goto(address)
            await tab.shot(f"narrow-{name}")
            widths[name] = await tab.page.evaluate("document.documentElement.scrollWidth")
    assert widths == dict.fromkeys(pages, NARROW["width"])


async def test_pages_follow_the_color_scheme(browser: Browser) -> None:
    grounds = []
    for is_dark in (False, True):
        async with visit(browser, is_dark=is_dark) as tab:
            await tab.page.goto("/search?q=needle")
            await tab.shot("results-dark" if is_dark else "results-light")
            await expect(tab.page.locator("mark .c").first).to_have_css("color", DARK_TEXT if is_dark else LIGHT_TEXT)
            ground = await tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
            grounds.append(sum(int(part) for part in ground[4:-1].split(",")))
    light, dark = grounds
    assert dark < 120 < 600 < light


async def test_pages_work_without_scripts(browser: Browser) -> None:
    async with visit(browser, with_scripts=False) as tab:
        page = tab.page
        await page.goto("/")
        await page.get_by_label("Search code").fill("needle lang:go")
        await page.get_by_role("button", name="Search").click()
        await page.locator("a.path").first.click()
        await expect(page).to_have_url(re.compile("#L3$"))
        await expect(page.locator("#L3")).to_contain_text("needle")
        await page.goto("/repos?filter=wild")
        await expect(page.locator("#repos tbody tr")).to_have_count(1)
        await page.goto("/fleet")
        await expect(page.locator(".node")).to_have_count(2)


async def test_argosy_up_serves_a_directory_and_stops_while_pages_are_open(browser: Browser, tmp_path: Path) -> None:
    source = tmp_path / "harbour"
    source.mkdir()
    (source / "berths.py").write_bytes(BERTHS_TEXT)
    port = free_port()
    outside = {name: value for name, value in os.environ.items() if not name.startswith("ARGOSY_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "argosy.cli",
        "up",
        str(source),
        "--port",
        str(port),
        env={**outside, "XDG_DATA_HOME": str(tmp_path / "data")},
        cwd=tmp_path,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        page = await browser.new_page(base_url=f"http://127.0.0.1:{port}")
        async with asyncio.timeout(60):
            while not await is_up(page):
                assert process.returncode is None
        await expect(page.locator(".pill.ready")).to_have_text("1 ready")
        await page.get_by_label("Search code").fill("sym:moor")
        await page.keyboard.press("Enter")
        await page.locator("a.path", has_text="berths.py").click()
        await expect(page.locator(".picked")).to_contain_text("def moor")
        await page.goto("/fleet")
        await expect(page.locator("#live-word")).to_have_text("live")
        await expect(page.locator(".tile.ready")).to_have_count(1)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 60) == 0
        await expect(page.locator("#live-word")).to_have_text("connecting again")
        await page.close()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def is_up(page: Page) -> bool:
    """Whether the first page loads and reports that everything is ready."""
    try:
        await page.goto("/")
    except PlaywrightError:
        return False
    return await page.locator(".pill.ready").count() == 1
