"""Frames and counts while something is dragged on the page of the explorer, in Chromium."""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from hardmax.explorer.joined_page import page

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


def drag(tab, point, n_steps):
    """Drag from a point of the plane; return medians and 95 % of frames, painting and counts."""
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
    return summary(tab)


def slide(tab, n_steps):
    """Move a weight on its slider; return the same."""
    tab.evaluate(WATCH)
    slider = tab.get_by_label("value", exact=True)
    for k in range(n_steps):
        slider.fill(str(round(-1 + k / 64, 6)))
        tab.evaluate("new Promise(requestAnimationFrame)")
    tab.evaluate("globalThis.isWatching = false")
    return summary(tab)


def summary(tab):
    painted = tab.evaluate("hardmax.view.surface.frames")
    return [tab.evaluate(SUMMARY, tab.evaluate(name)) for name in ("frames", "counts")] + [
        tab.evaluate(SUMMARY, painted)
    ]


def report(title, measured):
    parts = zip(("frame", "count", "paint"), measured, strict=True)
    text = "   ".join(f"{name} {low:5.1f} /{high:6.1f}" for name, (low, high) in parts)
    print(f"{title:<44}{text}", flush=True)


def main():
    print("milliseconds, median / 95 %")
    folder = Path(tempfile.mkdtemp())
    (folder / "page.html").write_text(page(), encoding="utf-8")
    command = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=command, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto((folder / "page.html").as_uri())
        tab.wait_for_selector("html[data-ready=yes]")
        tab.evaluate("hardmax.view.setCount(40)")
        for tau in (0.0, 0.05, 0.5):
            tab.evaluate("(tau) => hardmax.view.change(() => (hardmax.state.head.tau = tau))", tau)
            key = tab.evaluate("hardmax.state.head.keys[3].slice(0, 2)")
            report(f"one of 40 keys, temperature {tau}", drag(tab, key, 120))
        tab.evaluate("hardmax.go('regions')")
        for width in (10, 28):
            tab.evaluate("hardmax.view.choose('relu')")
            tab.evaluate(
                "(w) => hardmax.view.change(() => hardmax.view.renew({ width: w }))", width
            )
            tab.wait_for_timeout(2000)
            n_cells = tab.evaluate("hardmax.view.cells.found.n")
            handle = tab.evaluate("hardmax.view.handles[0]")
            measured = drag(tab, [handle["x"], handle["y"]], 100)
            report(f"a line of 2->[{width}]x3, {n_cells} cells", measured)
            tab.get_by_label("array of weights").select_option("weights 1")
            report(f"a weight of 2->[{width}]x3", slide(tab, 100))
        browser.close()


if __name__ == "__main__":
    main()
