"""The notebook widget: its state follows the page, and the page follows its state."""

import json

import pytest

import hardmax as hm
from tests.explorer.conftest import Shown

pytest.importorskip("anywidget", reason="anywidget is not installed")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
PLACE = """<!doctype html><meta charset="utf-8"><div id="place"></div><script type="module">
const listeners = [], values = JSON.parse(document.getElementById("values").textContent);
globalThis.model = {
  get: (name) => values[name],
  set: (name, value) => (values[name] = value),
  save_changes: () => (globalThis.saved = structuredClone(values.state)),
  on: (name, act) => listeners.push(act),
  off: () => {},
  change: (state) => ((values.state = state), listeners.forEach((act) => act())),
};
const { default: widget } = await import(`data:text/javascript,${encodeURIComponent(values.esm)}`);
widget.render({ model, el: document.getElementById("place") });
</script>"""


def test_state_goes_both_ways(chromium, engine, tmp_path):
    net = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
    widget = hm.explore(net).widget()
    assert widget.state["view"] == "regions"
    values = {"page": widget.page, "state": widget.state, "esm": widget._esm}
    text = json.dumps(values).replace("<", "\\u003c")
    inside = f'<script type="application/json" id="values">{text}</script><script type="module">'
    path = tmp_path / "notebook.html"
    path.write_text(PLACE.replace('<script type="module">', inside), encoding="utf-8")
    shown = Shown(chromium)
    shown.tab.goto(path.as_uri())
    frame = shown.tab.frame_locator("iframe")
    frame.locator("html[data-ready=yes]").wait_for()
    numbers = frame.locator(".numbers dd")
    sync_api.expect(numbers.first).to_have_text("4")
    frame.get_by_role("tab", name="Head", exact=True).click()
    shown.tab.wait_for_function("globalThis.saved?.view === 'head'")
    shown.tab.evaluate("model.change({ ...saved, head: { ...saved.head, keys: [[1, 0, 0]] } })")
    sync_api.expect(numbers).to_have_text(["1", "1", "0"])
    assert shown.errors == []
    shown.context.close()
