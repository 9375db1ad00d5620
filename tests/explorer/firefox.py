"""The page once in Firefox, by WebDriver BiDi: counts against the library, exports, no errors.

python -m tests.explorer.firefox
"""

import io
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, redirect_stdout
from pathlib import Path

import numpy as np
from websockets.sync.client import connect

import hardmax as hm
from hardmax.explorer.joined_page import build_page


class Firefox:
    """A headless browser with one tab."""

    def __init__(self, command):
        self.folder = tempfile.TemporaryDirectory()
        options = ["--headless", "--no-remote", "--remote-debugging-port=0"]
        self.process = subprocess.Popen(
            [command, *options, "--profile", self.folder.name],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for line in self.process.stderr:
            if found := re.search(r"ws://[\w.:]+", line):
                break
        self.opened = ExitStack()
        self.socket = self.opened.enter_context(connect(f"{found[0]}/session", max_size=None))
        self.numbers, self.errors = itertools.count(1), []
        self.ask("session.new", capabilities={})
        self.ask("session.subscribe", events=["log.entryAdded"])
        self.tab = self.ask("browsingContext.getTree")["contexts"][0]["context"]

    def ask(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            reply = json.loads(self.socket.recv(timeout=60))
            if reply.get("method") == "log.entryAdded" and reply["params"]["level"] == "error":
                self.errors.append(reply["params"]["text"])
            if reply.get("id") == number:
                assert reply["type"] == "success", reply
                return reply["result"]

    def open(self, path):
        self.ask("browsingContext.navigate", context=self.tab, url=path.as_uri(), wait="complete")
        self.wait_for("document.documentElement.dataset.ready === 'yes'")

    def __call__(self, script):
        """Return the value of an expression, through JSON; `app` is the page's own object."""
        found = self.ask(
            "script.evaluate",
            expression=f"(async (app) => JSON.stringify(await ({script})))(globalThis.hardmax)",
            target={"context": self.tab},
            awaitPromise=True,
        )
        assert found["type"] == "success", found["exceptionDetails"]["text"]
        value = found["result"].get("value")
        return None if value is None else json.loads(value)

    def wait_for(self, script):
        deadline = time.monotonic() + 30
        while not self(f"Boolean({script})"):
            assert time.monotonic() < deadline, f"{script} did not come true"
            time.sleep(0.05)

    def drag(self, start, end):
        steps = np.linspace(start, end, 20).round().astype(int).tolist()
        moves = [{"type": "pointerMove", "x": x, "y": y, "duration": 8} for x, y in steps]
        down, up = ({"type": f"pointer{word}", "button": 0} for word in ("Down", "Up"))
        mouse = {"type": "pointer", "id": "mouse", "actions": [moves[0], down, *moves[1:], up]}
        self.ask("input.performActions", context=self.tab, actions=[mouse])

    def close(self):
        self.opened.close()
        self.process.terminate()
        self.process.wait(20)
        self.process.stderr.close()
        self.folder.cleanup()


def count_by_library(firefox):
    names = {}
    with redirect_stdout(io.StringIO()):
        exec(firefox("app.view.python()").replace("hm.plot", "str"), names)
    return names["part"].n_cells


def check(firefox, path):
    firefox.open(path)
    keys = firefox("app.view.json()")
    head = hm.AttentionHead(
        np.eye(2), keys["keys"], keys["keys"], np.eye(2), logit_bias=keys["logit_bias"]
    )
    part = hm.enumerate_regions(hm.HardTransformer([hm.Block([head])]), hm.WholeSpace(2))
    assert keys["n_cells"] == part.n_cells
    firefox("(app.go('regions'), 0)")
    firefox.wait_for("app.view.cells?.counts")
    before = firefox("app.view.cells.found.n")
    assert before == count_by_library(firefox)
    place = """((box, { x, y }, [dx, dy]) => app.view.surface.toScreen(x + dx, y + dy)
        .map((z, i) => z + [box.left, box.top][i]))(
        app.view.stage.getBoundingClientRect(), app.view.handles[1], [%s])"""
    firefox("(app.view.surface.frames.length = 0)")
    firefox.drag(firefox(place % "0, 0"), firefox(place % "1.2, -0.8"))
    firefox.wait_for("app.view.question.isAnswered && !app.view.waiting && app.view.cells.counts")
    assert before != firefox("app.view.cells.found.n") == count_by_library(firefox)
    frames = sorted(firefox("app.view.surface.frames"))
    firefox("(app.view.certify(), 0)")
    firefox.wait_for("app.view.proof.textContent.includes('all cells are listed')")
    firefox("(app.go('real'), 0)")
    firefox.wait_for("app.view.cells")
    assert firefox("app.view.cells.found.n") == count_by_library(firefox)
    for kind in ("svg", "png", "pdf", "json", "html", "py"):
        assert firefox(f"app.exportAs('{kind}').then((blob) => blob.size)") > 200, kind
    assert firefox.errors == []
    return frames[len(frames) // 2]


def main():
    command = shutil.which("firefox") or shutil.which("firefox-esr")
    if command is None:
        sys.exit("Firefox is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.html"
        path.write_text(build_page(), encoding="utf-8")
        firefox = Firefox(command)
        try:
            median = check(firefox, path)
            version = firefox("navigator.userAgent")
        finally:
            firefox.close()
    print(f"{version}: counts are those of the library; a frame is painted in {median:.1f} ms")


if __name__ == "__main__":
    main()
