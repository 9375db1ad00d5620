"""Requirements of the explorer's tests beyond Python; without them, tests are skipped."""

import shutil
import time
from pathlib import Path

import pytest

import hardmax.explorer
from hardmax.explorer.joined_page import build_page, read_engine
from tests.explorer.browsers import BROWSERS, installed_browser

PAGE = Path(hardmax.explorer.__file__).with_name("page")


@pytest.fixture(scope="session")
def engine():
    """Return the path of the engine."""
    if not read_engine():
        pytest.skip("the engine of the page is not built: `make explorer`")
    return PAGE.with_name("engine.wasm")


@pytest.fixture(scope="session")
def node():
    """Return the command that runs JavaScript."""
    command = shutil.which("node")
    if command is None:
        pytest.skip("node is not installed")
    return command


@pytest.fixture(scope="session")
def chromium():
    """Start a headless browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    command = installed_browser()
    with playwright.sync_playwright() as started:
        if command is None and not Path(started.chromium.executable_path).exists():
            pytest.skip(f"no browser is installed; looked for {', '.join(BROWSERS)}")
        # Tests may run as root, where the browser has no sandbox.
        browser = started.chromium.launch(executable_path=command, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page_file(engine, tmp_path_factory):
    """Write the page to a file."""
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(build_page(), encoding="utf-8")
    return path


class Shown:
    """A page in the browser, without any network; errors and requests are recorded.

    Attributes:
        tab: The tab of playwright.
        errors: Errors of scripts.
        requests: Addresses that were asked for.
    """

    def __init__(self, chromium, width=1280, height=800, **options):
        size = {"width": width, "height": height}
        self.context = chromium.new_context(viewport=size, accept_downloads=True, **options)
        self.context.set_offline(True)
        self.tab = self.context.new_page()
        self.errors, self.requests = [], []
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))

    def open(self, path, link=""):
        self.tab.goto("about:blank")
        self.tab.goto(path.as_uri() + link)
        self.tab.wait_for_selector("html[data-ready=yes]")
        return self

    def __call__(self, script):
        """Return the value of an expression; `app` is the page's own object."""
        return self.tab.evaluate(
            f"(() => {{ const app = globalThis.hardmax; return {script}; }})()"
        )

    def count(self, name):
        """Return a number that the panel shows."""
        row = self.tab.locator(f".numbers div:has(dt:text-is('{name}'))")
        return int("".join(row.locator("dd").inner_text().split()))

    def wait_for(self, script):
        """Wait until an expression is true; the page itself must not evaluate text."""
        deadline = time.monotonic() + 30
        while not self(f"Boolean({script})"):
            assert time.monotonic() < deadline, f"{script} did not come true"
            self.tab.wait_for_timeout(20)

    def at(self, x, y):
        """Return the position of a point of the plane in the window."""
        px, py = self(f"app.view.surface.toScreen({x}, {y})")
        box = self.tab.locator("#stage").bounding_box()
        return box["x"] + px, box["y"] + py


RESET = """(app.theme = null, app.restore(first), app.history.length = 0, app.undone.length = 0,
    app.marks(), app.tour.end(), document.querySelector(".menu").hidden = true)"""


@pytest.fixture(scope="session")
def open_page(chromium, page_file):
    """Show the page once for all tests."""
    one = Shown(chromium).open(page_file)
    one("globalThis.first = JSON.stringify(app.state)")
    yield one
    one.context.close()


@pytest.fixture
def shown(open_page):
    """Show the page in its initial state; errors of its scripts fail the test."""
    open_page.tab.mouse.move(1, 1)
    open_page(RESET)
    open_page.errors.clear()
    yield open_page
    assert open_page.errors == []
