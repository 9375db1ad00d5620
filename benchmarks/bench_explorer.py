"""Frames and counts during dragging on the explorer's page, in Chromium."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.tables import Table
from hardmax.explorer.joined_page import build_page

SUMMARY = """(numbers) => {
    const sorted = [...numbers].sort((a, b) => a - b);
    return [0.5, 0.95].map((part) => sorted[Math.floor(part * sorted.length)]);
}"""
WATCH = """() => {
    const { view } = globalThis.hardmax;
    globalThis.frames = [], globalThis.counts = [], globalThis.isWatching = true;
    view.surface.frames.length = 0;
    let last = performance.now();
    const tick = (now) => {
        frames.push(now - last), (last = now);
        if (isWatching) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
    const name = view.receive ? "receive" : "update", before = view[name].bind(view);
    view[name] = (answer) => {
        before(answer);
        if (!answer || answer.found) counts.push(view.latency);
    };
}"""


def measure_drag(tab, point, n_steps):
    """Drag from a point of the plane, and return the measured times."""
    px, py = tab.evaluate("([x, y]) => hardmax.view.surface.toScreen(x, y)", point)
    box = tab.locator("#stage").bounding_box()
    x, y = box["x"] + px, box["y"] + py
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.evaluate(WATCH)
    for k in range(n_steps):
        tab.mouse.move(x + 0.9 * k, y + 0.5 * k)
    tab.mouse.up()
    tab.evaluate("globalThis.isWatching = false")
    return format_summary(tab)


def measure_slider(tab, n_steps):
    """Move a weight with its slider, and return the measured times."""
    tab.evaluate(WATCH)
    slider = tab.get_by_label("value", exact=True)
    for k in range(n_steps):
        slider.fill(str(round(-1 + k / 64, 6)))
        tab.evaluate("new Promise(requestAnimationFrame)")
    tab.evaluate("globalThis.isWatching = false")
    return format_summary(tab)


def format_summary(tab):
    """Format the median and the 95th percentile of frames, answers and painting."""
    measured = ("frames", "counts", "hardmax.view.surface.frames")
    pairs = [tab.evaluate(SUMMARY, tab.evaluate(name)) for name in measured]
    return [f"{low:.1f}, {high:.1f}" for low, high in pairs]


def tables() -> Iterator[Table]:
    """Yield the times of frames during dragging."""
    rows = []
    command = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        path = Path(folder) / "page.html"
        path.write_text(build_page(), encoding="utf-8")
        browser = started.chromium.launch(executable_path=command, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(path.as_uri())
        tab.wait_for_selector("html[data-ready=yes]")
        tab.evaluate("hardmax.view.setCount(40)")
        for tau in (0.0, 0.05, 0.5):
            tab.evaluate("(tau) => hardmax.view.change(() => (hardmax.state.head.tau = tau))", tau)
            key = tab.evaluate("hardmax.state.head.keys[3].slice(0, 2)")
            rows.append((f"one of 40 keys, temperature {tau:g}", *measure_drag(tab, key, 120)))
        tab.evaluate("hardmax.go('regions')")
        for width in (10, 28):
            tab.evaluate("hardmax.view.choose('relu')")
            tab.evaluate(
                "(w) => hardmax.view.change(() => hardmax.view.renew({ width: w }))", width
            )
            tab.wait_for_timeout(2000)
            n_cells = tab.evaluate("hardmax.view.cells.found.n")
            handle = tab.evaluate("hardmax.view.handles[0]")
            measured = measure_drag(tab, [handle["x"], handle["y"]], 100)
            rows.append((f"a line of 2->[{width}] x 3, {n_cells} cells", *measured))
            tab.get_by_label("array of weights").select_option("weights 1")
            rows.append((f"a weight of 2->[{width}] x 3", *measure_slider(tab, 100)))
        browser.close()
    yield Table(
        "The explorer during dragging",
        ("dragged object", "frame", "answer", "painting"),
        rows,
        """Milliseconds in Chromium without a graphics card, as the median and the 95th percentile:
        from one frame to the next, from a movement to its exact answer, and for painting alone.""",
    )
