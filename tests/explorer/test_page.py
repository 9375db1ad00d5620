"""The page in a real browser, from a file and without a network."""

import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from safetensors.numpy import save_file

import hardmax as hm
from hardmax.explorer.plain_data import domain_from_data, model_from_data
from hardmax.verify import verify
from tests.explorer.conftest import Shown

PHONE = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True}


def drag(shown, start, end, n_steps=12):
    mouse = shown.tab.mouse
    mouse.move(*start)
    mouse.down()
    mouse.move(*end, steps=n_steps)
    mouse.up()


def cells_of_keys(keys, bias):
    head = hm.AttentionHead(np.eye(2), keys, keys, np.eye(2), logit_bias=bias)
    transformer = hm.HardTransformer([hm.Block([head])])
    return hm.enumerate_regions(transformer, hm.WholeSpace(2)).n_cells


def cells_now(shown):
    """Count the cells of the head shown on the page with the library."""
    return cells_of_keys(shown("app.view.json().keys"), shown("app.view.json().logit_bias"))


def test_dragging_a_key_changes_the_exact_count(shown):
    shown("app.view.change(() => (app.state.head.bias = 'none'))")
    assert shown.count("cells") == cells_now(shown)
    before = shown.count("cells")
    x, y, _ = shown("app.state.head.keys[3]")
    drag(shown, shown.at(x, y), shown.at(2.7, 2.2))
    assert shown("app.state.head.keys[3].slice(0, 2)") == pytest.approx([2.7, 2.2], abs=0.02)
    assert shown.count("cells") == cells_now(shown) != before
    assert shown.count("cells") + shown.count("dead") == shown.count("keys") == 12


def test_keys_on_a_grid_with_many_ties_are_counted_exactly(shown):
    keys = [[x / 4, y / 4, 0] for x in range(-3, 4) for y in range(-3, 4)]
    shown(f"app.view.change(() => (app.state.head.keys = {keys}))")
    assert shown.count("cells") == cells_now(shown) == 49
    shown("app.view.change(() => (app.state.head.bias = 'none'))")
    assert shown.count("cells") == cells_now(shown) == 4


def test_a_double_click_adds_a_key_and_delete_removes_it(shown):
    shown.tab.mouse.dblclick(*shown.at(1.9, -2.6))
    assert shown.count("keys") == 13
    shown.tab.keyboard.press("Delete")
    assert shown.count("keys") == 12


def test_a_key_can_be_moved_without_a_mouse(shown):
    shown.tab.focus("#stage")
    shown.tab.keyboard.press("]")
    x, y, _ = shown("app.state.head.keys[0]")
    shown.tab.keyboard.press("ArrowRight")
    assert shown("app.state.head.keys[0][0]") > x
    assert shown("app.state.head.keys[0][1]") == y
    shown.tab.keyboard.press("Control+z")
    assert shown("app.state.head.keys[0][0]") == x


def test_every_cell_is_reached_without_a_mouse(shown):
    shown("app.go('regions')")
    shown.wait_for("app.view.cells?.counts")
    shown.tab.focus("#stage")
    for key, cell in (("[", 162), ("]", 0), ("]", 1)):
        shown.tab.keyboard.press(key)
        assert shown("app.view.hovered") == cell
    x, y = shown("app.view.pointer")
    assert shown("app.view.cellAt(app.view.pointer)") == 1
    assert "nearest wall" in shown.tab.locator(".facts").inner_text()
    shown.wait_for("document.getElementById('live').textContent.startsWith('cell 1, one of 163')")
    half = shown("app.view.surface.half")
    shown.tab.keyboard.press("Enter")
    assert shown("app.view.surface.half") < half
    assert abs(shown("app.view.surface.x") - x) < half
    assert abs(shown("app.view.surface.y") - y) < half


def pixel(shown, x, y):
    shown("app.view.surface.paint()")
    px, py = shown(f"app.view.surface.toScreen({x}, {y})")
    place = f"Math.round({px} * app.view.surface.ratio), Math.round({py} * app.view.surface.ratio)"
    context = "app.view.surface.canvas.getContext('2d')"
    return list(shown(f"Object.values({context}.getImageData({place}, 1, 1).data)"))[:3]


def test_cells_have_the_colours_of_every_picture(shown):
    shown("app.view.change(() => (app.state.head.keys = [[-1, 0, 0], [1, 0, 0]]))")
    assert pixel(shown, -1.5, 1.0) == [0x73, 0xAC, 0xEB]
    assert pixel(shown, 1.5, 1.0) == [0xED, 0xBD, 0x91]


def test_the_field_blends_into_the_diagram_as_it_cools(shown):
    shown("app.view.change(() => Object.assign(app.state.head, {keys: [[-1,0,0],[1,0,0]]}))")
    colours = {}
    for position in (0, 70):
        slider = shown.tab.get_by_label("temperature")
        slider.fill(str(position))
        colours[position] = pixel(shown, -0.25, 1.0), pixel(shown, 0.25, 1.0)
    hard, soft = (np.array(colours[position], dtype=float) for position in (0, 70))
    assert shown("app.state.head.tau") == pytest.approx(0.5623)
    gap = np.abs(hard[0] - hard[1]).sum()
    assert gap > 40
    assert 5 < np.abs(soft[0] - soft[1]).sum() < 0.6 * gap


def test_the_wheel_zooms_at_the_pointer(shown):
    point = shown.at(1.0, 1.0)
    shown.tab.mouse.move(*point)
    shown.tab.mouse.wheel(0, -300)
    shown.wait_for("app.view.surface.half < 2")
    assert shown.at(1.0, 1.0) == pytest.approx(point, abs=1.0)


def model_of_tests():
    rng = np.random.default_rng(5)
    weights = [rng.integers(-3, 4, size=shape).astype(float) for shape in ((2, 6), (6, 5), (5, 1))]
    return hm.ReluNetwork(weights, [np.arange(6.0) - 2, np.array([1.0, 0, -1, 2, -2]), None])


def drop(shown, path):
    data = list(path.read_bytes())
    shown.tab.evaluate(
        """([name, bytes]) => {
            const files = new DataTransfer();
            files.items.add(new File([new Uint8Array(bytes)], name));
            const given = { dataTransfer: files, bubbles: true };
            document.body.dispatchEvent(new DragEvent("drop", given));
        }""",
        [path.name, data],
    )


def test_a_dropped_model_has_the_counts_of_the_library(shown, tmp_path):
    model = model_of_tests()
    hm.save_model(model, tmp_path / "net.safetensors")
    drop(shown, tmp_path / "net.safetensors")
    wait_for_model(shown, model)
    part = hm.enumerate_regions(model, hm.Box([-4, -4], [4, 4]))
    counts = tuple(shown.count(name) for name in ("cells", "regions", "maps"))
    assert counts == (part.n_cells, part.n_regions, part.n_affine_maps)


def test_what_the_page_saved_as_json_can_be_dropped_again(shown, tmp_path):
    shown("app.go('regions')")
    shown.wait_for("app.view.cells?.counts")
    shown("app.view.choose('shattering')")
    shown.wait_for("app.view.cells.counts && app.view.cells.found.n === 256")
    (tmp_path / "saved.json").write_bytes(saved(shown, "JSON"))
    shown("app.view.choose('relu')")
    shown.wait_for("app.view.cells.counts && app.view.cells.found.n !== 256")
    drop(shown, tmp_path / "saved.json")
    shown.wait_for("app.view.given.name === 'saved.json' && app.view.cells.found.n === 256")
    content = json.loads((tmp_path / "saved.json").read_text())
    for domain in ({"box": [0, 0, 0, 1]}, {"box": [0, 0, "x", 1]}, {"plane": 1, "chart": {}}):
        (tmp_path / "bad.json").write_text(json.dumps({**content, "domain": domain}))
        drop(shown, tmp_path / "bad.json")
        shown.wait_for("!app.view.alarm.hidden")
        assert shown("app.view.cells.found.n") == 256


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}", b"\0" * 8])
def test_a_file_that_is_no_model_is_refused_with_a_reason(shown, tmp_path, content):
    (tmp_path / "bad.safetensors").write_bytes(content)
    drop(shown, tmp_path / "bad.safetensors")
    alarm = shown.tab.get_by_role("alert")
    alarm.wait_for()
    assert "not a model file" in alarm.inner_text()


def wait_for_model(shown, model):
    """Wait for the cells of a dropped model, which has another number of layers than before."""
    n_layers = len(model.network.layers)
    shown.wait_for(
        "app.view.cells?.counts && app.view.given.name === 'net.safetensors'"
        f" && app.view.cells.network.layers.length === {n_layers}"
    )


def test_the_signature_map_and_wall_under_the_pointer_are_those_of_the_library(shown, tmp_path):
    model = model_of_tests()
    hm.save_model(model, tmp_path / "net.safetensors")
    drop(shown, tmp_path / "net.safetensors")
    wait_for_model(shown, model)
    point = [0.6, -1.3]
    shown.tab.mouse.move(*shown.at(*point))
    x, y = shown("app.view.pointer")
    text = shown.tab.locator(".facts").inner_text()
    signature = "".join(str(s) for s in model.signature([x, y]))
    assert signature[:6] in text
    assert signature[6:] in text
    (weight, bias) = model.affine_map(model.signature([x, y]))
    wanted = [*weight[:, 0], bias[0]]
    found = re.search(r"output 0\s+(.*)", text)[1].replace("−", "-").replace("+ ", "")
    numbers = [float(n) for n in re.findall(r"-?\d+\.\d+", found.replace("- ", "-"))]
    assert numbers == pytest.approx(wanted, abs=5e-4)
    walls = [model.network.name_wall(layer, unit) for layer in (0, 1) for unit in range(6)]
    assert re.search(r"nearest wall\s+(.*)", text)[1] in walls
    assert "layer 0, units" in text
    assert "layer 1, units" in text


def test_the_nearest_wall_is_spelled_as_results_index_it(shown):
    shown("app.go('regions')")
    shown.wait_for("app.view.cells?.counts")
    network = model_from_data(shown("app.view.model"))
    part = hm.enumerate_regions(network, domain_from_data(shown("app.view.domain")))
    kinds = set()
    for cell in range(0, part.n_cells, 9):
        shown(f"app.view.goTo({cell})")
        text = shown.tab.locator(".facts").inner_text()
        name = re.search(r"nearest wall\s+(.*)", text)[1]
        walls = {wall for named in part.rows(cell).walls.values() for wall in named}
        on_domain = re.fullmatch(r"domain, row (\d+)", name)
        wall = (-1, int(on_domain[1])) if on_domain else network.find_wall(name.split(" | ")[0])
        assert wall in walls
        kinds.add(name.split(",")[1].split()[0])
    assert kinds >= {"head", "unit"}


def test_a_cell_that_no_layer_cuts_keeps_its_colour(shown):
    shown("app.go('regions')")
    shown.wait_for("app.view.cells")
    seen = {}
    for depth in (1, 2, 3, 4):
        shown(f"app.view.change(() => (app.view.given.depth = {depth}))")
        shown.wait_for(f"app.view.cells.network.layers.length === {depth}")
        found = shown(
            "(({found, colours}) => Array.from({length: found.n}, (_, i) => ["
            "Array.from(found.points.slice(2 * found.starts[i], 2 * found.starts[i + 1])),"
            "Array.from(colours.slice(3 * i, 3 * i + 3))]))(app.view.cells)"
        )
        shapes = {tuple(sorted(zip(c[::2], c[1::2], strict=True))): tuple(rgb) for c, rgb in found}
        kept = [shape for shape in shapes if shape in seen]
        assert depth == 1 or kept
        assert all(shapes[shape] == seen[shape] for shape in kept)
        seen = shapes


def test_live_counts_follow_a_dragged_key_of_a_transformer(shown):
    shown("app.go('regions')")
    shown.wait_for("app.view.cells?.counts")
    before = shown("app.view.cells.found.n")
    handle = shown("app.view.handles[1]")
    drag(shown, shown.at(handle["x"], handle["y"]), shown.at(handle["x"] + 1.2, handle["y"] - 0.8))
    shown.wait_for("app.view.question.isAnswered && !app.view.waiting && app.view.cells.counts")
    script = shown("app.view.python()")
    names = {}
    exec(script.replace("hm.plot(part)", ""), names)
    assert names["part"].n_cells == shown.count("cells") != before
    assert names["part"].n_regions == shown.count("regions")


def test_counts_follow_a_weight_on_its_slider(shown):
    shown("app.go('regions')")
    shown.wait_for("app.view.cells?.counts")
    before = shown.count("cells")
    shown.tab.get_by_label("array of weights").select_option("block 1, units: b_in")
    shown.tab.get_by_label("row", exact=True).fill("2")
    shown.tab.get_by_label("value", exact=True).fill("-3.5")
    shown.wait_for("app.view.question.isAnswered && !app.view.waiting && app.view.cells.counts")
    assert shown("app.view.model.blocks[1].ffn.b_in[2]") == -3.5
    names = {}
    exec(shown("app.view.python()").replace("hm.plot(part)", ""), names)
    assert names["part"].n_cells == shown.count("cells") != before


def test_a_drawn_curve_becomes_a_wall(shown):
    shown("app.go('regions')")
    shown.wait_for("app.view.cells?.counts")
    shown.tab.get_by_role("radio", name="drawn").click()
    shown.wait_for("app.view.question.isAnswered && app.view.cells.counts")
    mouse = shown.tab.mouse
    mouse.move(*shown.at(-3, -2))
    mouse.down()
    for x in np.linspace(-3, 3, 41):
        mouse.move(*shown.at(x, abs(x) - 3 + 0.05))
    mouse.up()
    shown.wait_for("app.view.question.isAnswered && !app.view.waiting && app.view.cells.counts")
    knots = np.array(shown("app.view.given.source.knots"))
    assert len(knots) == 3
    assert knots[1] == pytest.approx([0, -2.95], abs=0.2)
    names = {}
    exec(shown("app.view.python()").replace("hm.plot(part)", ""), names)
    part, model = names["part"], names["model"]
    assert part.n_cells == shown.count("cells") == 8
    assert model([[1.0, 1.0], [1.0, -2.5]]).ravel() == pytest.approx([2.95, 0], abs=0.1)


def test_a_link_restores_the_state(shown, chromium, page_file):
    shown("app.view.change(() => Object.assign(app.state.head, { tau: 0.25, bias: 'own' }))")
    x, y, _ = shown("app.state.head.keys[2]")
    drag(shown, shown.at(x, y), shown.at(-1.5, 0.75))
    other = Shown(chromium).open(page_file, shown("location.hash"))
    assert other("app.state") == shown("app.state")
    assert other.count("cells") == shown.count("cells")
    shown("app.go('real')")
    shown_heads(shown, 1, 2, True, [7, 0, 3])
    shown("app.commit()")
    other.open(page_file, shown("location.hash"))
    assert other("app.state") == shown("app.state")
    other.wait_for("app.view.cells")
    assert other.count("cells") == shown.count("cells")
    other.context.close()


def test_what_is_too_large_for_a_link_is_left_out_and_said(shown):
    large = "{ kind: 'ReluNetwork', weights: [Array(2).fill(Array(4000).fill(0.125)),"
    large += " Array(4000).fill([0])], biases: [Array(4000).fill(0.5), [0]] }"
    shown(f"Object.assign(app.state.regions, {{ source: {{ kind: 'file' }}, model: {large} }})")
    shown("app.view.change(() => (app.state.head.bias = 'own'))")
    assert 100 < len(shown("location.hash")) < 3000
    shown("(app.state.view = 'regions', app.show())")
    shown("void app.save('link')")
    assert "too large for a link" in shown.tab.get_by_role("alert").inner_text()
    assert shown("location.hash") == ""


def test_a_link_that_says_nothing_shows_the_page_as_usual(chromium, page_file):
    one = Shown(chromium)
    for link in ("#x", "#e30", "#bnVsbA", "#eyJoZWFkIjp7ImtleXMiOltbMSwyXV19fQ"):
        assert one.open(page_file, link).count("keys") == 12
    assert one.errors == []
    one.context.close()


HOSTILE_MODELS = [
    "{ kind: 'ReluNetwork', weights: [[[1, 2], [3]], [[1], [1]]], biases: [[0, 0], [0]] }",
    "{ kind: 'ReluNetwork', weights: [[[1, 'x'], [3, 1]], [[1], [1]]], biases: [[0, 0], [0]] }",
    "{ kind: 'ReluNetwork', weights: [[[1, 2], [3, 4]], [[1]]], biases: [[0, 0], [0]] }",
    "{ kind: 'ReluNetwork', weights: [], biases: [] }",
    "{ kind: 'HardTransformer', blocks: [{ heads: [{}] }] }",
    "{ kind: 'HardTransformer', blocks: [] }",
    "{ kind: 'Unknown' }",
    "[]",
]


def test_a_link_with_a_model_that_does_not_fit_shows_the_usual_one(shown):
    for model in HOSTILE_MODELS:
        shown(
            "app.restore(JSON.stringify({ ...app.state,"
            f" view: 'regions', regions: {{ ...app.state.regions, source: {{ kind: 'file' }},"
            f" model: {model} }} }}))"
        )
        shown.wait_for("app.view.cells?.counts")
        assert shown("app.view.model.kind") == "HardTransformer", model


def test_changes_are_undone_and_redone(shown):
    first = shown("JSON.stringify(app.state.head.keys)")
    x, y, _ = shown("app.state.head.keys[0]")
    drag(shown, shown.at(x, y), shown.at(2, -2))
    second = shown("JSON.stringify(app.state.head.keys)")
    shown.tab.get_by_label("undo").click()
    assert shown("JSON.stringify(app.state.head.keys)") == first
    shown.tab.get_by_label("redo").click()
    assert shown("JSON.stringify(app.state.head.keys)") == second != first


def saved(shown, title):
    shown.tab.get_by_role("button", name="Save").click()
    with shown.tab.expect_download() as waiting:
        shown.tab.get_by_role("menuitem", name=title, exact=True).click()
    return waiting.value.path().read_bytes()


@pytest.mark.parametrize("view", ["head", "heads", "regions", "real"])
def test_every_export_can_be_opened(shown, chromium, tmp_path, capsys, view):
    shown(f"app.go('{view}')")
    if view == "regions":
        shown.wait_for("app.view.cells?.counts")
    if view == "real":
        shown.wait_for("app.view.cells")
    count = shown.count("cells")
    drawing = ElementTree.fromstring(saved(shown, "SVG"))
    paths = drawing.findall(".//{http://www.w3.org/2000/svg}path")
    filled = [path for path in paths if path.get("fill") != "none"]
    assert len(filled) >= min(count, 5)
    assert saved(shown, "PNG").startswith(b"\x89PNG")
    pdf = saved(shown, "PDF")
    table = int(re.search(rb"startxref\n(\d+)", pdf)[1])
    assert pdf[table:].startswith(b"xref")
    for place in re.findall(rb"(\d{10}) 00000 n", pdf):
        assert re.match(rb"\d 0 obj", pdf[int(place) :])
    assert json.loads(saved(shown, "JSON"))["n_cells"] == count
    script = saved(shown, "Python snippet").decode().replace("hm.plot", "print")
    exec(script, {})
    assert capsys.readouterr().out.split()[0] == str(count)
    (tmp_path / "saved.html").write_bytes(saved(shown, "single HTML file"))
    again = Shown(chromium).open(tmp_path / "saved.html")
    assert again("app.state") == shown("app.state")
    again.wait_for("app.view.found || app.view.diagram || app.view.cells")
    assert again.count("cells") == count
    assert again.errors == []
    again.context.close()


def test_no_request_leaves_the_machine(shown, tmp_path):
    for view in ("head", "heads", "regions", "real"):
        shown(f"app.go('{view}')")
    shown.wait_for("app.view.cells")
    assert {address.partition(":")[0] for address in shown.requests} <= {"file", "blob", "data"}


def test_the_tour_ends_with_four_thousand_regions(shown):
    shown.tab.get_by_role("button", name="Tour").click()
    for _ in range(4):
        shown.tab.locator("#tour button.main").click()
    shown.wait_for("app.view.cells?.counts")
    counts = [shown.count(name) for name in ("cells", "regions", "maps")]
    assert counts == [4096] * 3
    shown.tab.locator("#tour button.main").click()
    assert not shown.tab.locator("#tour").is_visible()


def shown_heads(shown, layer, head, is_whole, tokens):
    shown(
        "app.view.change(() => Object.assign(app.state.real, "
        f"{{ layer: {layer}, head: {head}, isWhole: {str(is_whole).lower()}, tokens: {tokens} }}))"
    )
    shown.wait_for("app.view.question.isAnswered && !app.view.waiting")


def test_the_plane_and_the_path_of_a_real_model_are_those_of_the_library(shown, capsys):
    shown("app.go('real')")
    for place in ((0, 0, False, [0, 1, 2]), (2, 3, False, [4, 9, 9]), (1, 0, True, [7, 3, 5])):
        shown_heads(shown, *place)
        exec(shown("app.view.python()").replace("hm.plot(part)", ""), {})
        n_cells, *_, n_breaks = map(int, capsys.readouterr().out.split())
        assert shown.count("cells") == n_cells
        assert shown.count("breakpoints") == n_breaks


def heads_of_tests():
    """Draw integer queries and keys of two layers, so that planes have exact directions."""
    rng = np.random.default_rng(8)
    shapes = (4, 6, 3), (2, 6, 3), (2, 6, 1)
    draw = (rng.integers(-9, 10, size=shape).astype(float) for _ in range(2) for shape in shapes)
    arrays = list(draw)
    return [hm.models.HeadArrays(*arrays[i : i + 3], is_causal=True) for i in (0, 3)]


def test_dropped_heads_are_cut_as_the_library_cuts_them(shown, tmp_path):
    layers = heads_of_tests()
    data = hm.explore(layers, labels=list("abcdef")).models[0]
    (tmp_path / "heads.json").write_text(json.dumps(data))
    cache = {}
    for i, layer in enumerate(layers):
        for name, array in (("q", layer.queries), ("k", layer.keys)):
            turned = np.ascontiguousarray(array.transpose(1, 0, 2)[None], dtype=np.float32)
            cache[f"blocks.{i}.attn.hook_{name}"] = turned
    save_file(cache, tmp_path / "cache.safetensors")
    for name, title in (("heads.json", "heads"), ("cache.safetensors", "cache.safetensors")):
        drop(shown, tmp_path / name)
        shown.wait_for(f"app.state.view === 'real' && app.view.data.name === '{title}'")
        for head, reader in ((0, 5), (3, 3)):
            shown(f"app.state.real.reader = {reader}")
            shown_heads(shown, 1, head, False, [1, 4, 2])
            a, b, c = layers[1].queries[head, [1, 4, 2]]
            seen = layers[1].head(head, reader)
            plane = hm.Slice(a, [b - a, c - a], hm.WholeSpace(2))
            model = hm.HardTransformer([hm.Block([seen], attention_residual=False)])
            assert shown.count("cells") == hm.enumerate_regions(model, plane).n_cells
            path = hm.Slice(a, [b - a], hm.Box([0], [1]))
            n_breaks = hm.enumerate_regions(model, path).n_cells - 1
            assert shown.count("breakpoints") == n_breaks


def test_heads_that_do_not_fit_are_refused(shown, tmp_path):
    data = hm.explore(heads_of_tests()).models[0]
    shown("app.go('real')")
    for change in (
        {"labels": ["a"]},
        {"layers": []},
        {"layers": [{"queries": [[[1]]], "keys": [], "temperature": 1}]},
        {"layers": [{**data["layers"][0], "temperature": 0}]},
        {"layers": [{**data["layers"][0], "keys": [[["x"] * 3] * 6]}]},
    ):
        (tmp_path / "bad.json").write_text(json.dumps({**data, **change}))
        shown("app.view.alarm.hidden = true")
        drop(shown, tmp_path / "bad.json")
        shown.wait_for("!app.view.alarm.hidden")
        assert "does not contain heads of a model" in shown.tab.get_by_role("alert").inner_text()


def test_a_certificate_is_made_and_checked_in_the_page_and_a_spoiled_one_refused(shown, tmp_path):
    shown("app.go('regions')")
    shown.wait_for("app.view.cells?.counts")
    shown.tab.get_by_role("button", name="certificate", exact=True).click()
    count = shown.count("cells")
    shown.tab.get_by_text(f"all cells are listed, {count} in total").wait_for()
    files = {}
    for name in ("certificate.json", "model.safetensors"):
        with shown.tab.expect_download() as waiting:
            shown.tab.get_by_role("button", name=name).click()
        files[name] = waiting.value.path().read_bytes()
    assert verify.check(files["model.safetensors"], files["certificate.json"]) == count
    claim = json.loads(files["certificate.json"])
    for change, words in (
        (claim, f"all cells are listed, {count} in total"),
        (None, "do not cover"),
    ):
        if change is None:
            claim["signatures"].pop()
            claim["witnesses"].pop()
        (tmp_path / "given.json").write_text(json.dumps(claim))
        drop(shown, tmp_path / "given.json")
        shown.tab.get_by_text(words).wait_for()


def test_heads_together_are_counted_and_bounded(shown):
    shown("app.go('heads')")
    data = shown("app.view.json()")
    heads = [
        hm.AttentionHead(np.eye(2), h["keys"], h["keys"], np.eye(2), logit_bias=h["logit_bias"])
        for h in data["heads"]
    ]
    part = hm.enumerate_regions(hm.HardTransformer([hm.Block(heads)]), hm.WholeSpace(2))
    assert shown.count("cells") == part.n_cells
    sizes = [len(head.keys) for head in heads]
    assert shown.count("bound") == hm.bounds.attention_cells(sizes, None, 2, bias="logit")
    shown("app.view.change(() => app.state.heads.heads.forEach((head) => (head.bias = 'none')))")
    assert shown.count("bound") == hm.bounds.attention_cells(sizes, None, 2, bias="none")


def test_two_fingers_stretch_the_plane(chromium, page_file):
    one = Shown(chromium, **PHONE).open(page_file)
    session = one.context.new_cdp_session(one.tab)
    x, y = one.at(-0.1, 2.9)

    def touch(kind, *gaps):
        points = [{"x": x + gap, "y": y, "id": i} for i, gap in enumerate(gaps)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    half = one("app.view.surface.half")
    touch("touchStart", -20, 20)
    for k in range(1, 9):
        touch("touchMove", -20 - 5 * k, 20 + 5 * k)
    touch("touchEnd")
    assert one("app.view.surface.half") == pytest.approx(half / 3, rel=0.15)
    assert one.errors == []
    one.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(chromium, page_file, scheme):
    one = Shown(chromium, **PHONE, color_scheme=scheme).open(page_file)
    for view in ("head", "heads", "regions", "real"):
        one(f"app.go('{view}')")
        assert one("document.documentElement.scrollWidth") <= 390
        assert one("app.isDark") is (scheme == "dark")
    one("app.go('head')")
    x, y, _ = one("app.state.head.keys[0]")
    one.tab.touchscreen.tap(*one.at(x, y))
    assert one("app.view.selected") == 0
    assert one.errors == []
    one.context.close()
