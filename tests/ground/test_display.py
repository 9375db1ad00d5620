"""Representations: every public object as one short line and as a card in a notebook."""

import dataclasses
import inspect
import pydoc
import re
import subprocess
import sys
from enum import Enum
from functools import cache
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import hardmax as hm
from hardmax._ground import public_names
from hardmax._ground.display import (
    LONGEST,
    format_card,
    format_table,
    html_card,
    short_repr,
    shorten,
    summarize,
)
from hardmax.plotting.dispatch import draw as draw_registered
from hardmax.typing import ArrayLike, FloatArray
from tests.region_models import gaussian_relu, integer_transformer

RNG = np.random.default_rng(0)
FOLDER = TemporaryDirectory()
PACKAGES = [import_module(name) for name in public_names.PACKAGES if name != "hardmax.typing"]


def public_classes():
    """Return all exported classes except errors, enumerations and protocols."""
    found = [getattr(package, name) for package in PACKAGES for name in package.__all__]
    made = [c for c in found if inspect.isclass(c) and not getattr(c, "_is_protocol", False)]
    return [c for c in made if not issubclass(c, Exception | Enum)]


def checkpoint_parts():
    """Return a trained transformer, its parts, the results of a run, and its heads."""
    model = hm.load_checkpoint(Path(__file__).parents[1] / "models/checkpoints/small/llama")
    bert = hm.load_checkpoint(Path(__file__).parents[1] / "models/checkpoints/small/bert")
    found = hm.models.run_transformer(model, np.arange(5))
    layer = model.layers[0]
    arrays = hm.models.head_arrays(model, found)
    parts = [model, model.embedding, bert, bert.embedding, layer, layer.attention, layer.mlp]
    parts += [layer.attention.rotary, layer.attention_norm, found, found.layers[0], arrays[0]]
    survey = hm.surveys.survey_heads(hm.load_checkpoint("hardmax"), np.arange(12))
    slice_ = hm.surveys.query_slice(survey.layers[0], 0)
    parts += [
        survey,
        slice_,
        survey.slices[0],
        survey.effects[0],
        survey.together[0],
        *hm.analyze_heads([arrays[0]]),
    ]
    parts += [hm.models.certify_rows(arrays[0], 0), hm.models.tokenise("hardmax", "cab|abc")]
    read = found.layers[0].inputs
    return [*parts, layer.mlp.up, hm.models.attention_path(model, read, read[::-1])]


@cache
def shown():
    """Make objects of all public classes and results of public functions, including large ones."""
    wide = RNG.normal(size=(40, 30))
    head = hm.AttentionHead(wide[:30, :30], wide, wide, wide[:30, :30])
    small = hm.AttentionHead(np.eye(2), RNG.normal(size=(5, 2)), RNG.normal(size=(5, 2)), np.eye(2))
    relu = gaussian_relu(0, [2, 6, 6])
    part = hm.enumerate_regions(relu, hm.Box([-2, -2], [2, 2]))
    certificate = part.certificate()
    transformer = integer_transformer(0, 2, 4, 2)
    domain = hm.Box([-1, -1], [1, 1])
    square = hm.Box([0.0, 0.0], [1.0, 1.0])
    fit = hm.constructions.approximate(lambda x: x[:, 0] * x[:, 1], square, 8)
    compiled = hm.constructions.compile_relu(relu, square, epsilon=0.1)
    deep = hm.constructions.shattering_transformer(4, 2, 6, 4)
    polynomial = hm.TropicalPolynomial(wide, wide[:, 0])
    plane = hm.TropicalPolynomial(RNG.normal(size=(9, 2)), RNG.normal(size=9))
    claims = hm.papers.all_claims()
    results = hm.papers.run_audit(hm.papers.find_claims("Fig3") + hm.papers.find_claims("III.11"))
    box = hm.Box(-np.ones(784), np.ones(784))
    knots = hm.constructions.Knots(np.arange(50.0), RNG.normal(size=50))
    points = RNG.uniform(-1, 1, (20, 2))
    diagram = hm.PowerDiagram.from_keys(wide)
    token = hm.constructions.tent_network(2)
    scores = hm.AttentionHead(wide[:30, :30], 99 * wide, wide, wide[:30, :30]).score_map
    enclosed = hm.models.Enclosed.exactly(wide)
    solid = hm.enumerate_regions(gaussian_relu(0, [3, 4]), hm.Box([-1] * 3, [1] * 3))
    rectangle = [[0, 0], [5, 0], [0, 1], [5, 1]]
    mesh = hm.constructions.Mesh(rectangle, [[0, 1, 2], [1, 2, 3]], [0, 0, 0, 1])
    point = hm.papers.sweep_points({"N": [3], "H": [1], "d_ff": [2]})
    stored = hm.enumerate_regions(relu, hm.Box([-2, -2], [2, 2]), store=FOLDER.name)
    return [
        stored,
        *point,
        *hm.papers.sweep(point),
        *claims,
        *results,
        *(result.finding for result in results),
        hm.papers.Ruling("V.2", "Theorem V.2", "words " * 50, "false", "because " * 50),
        *(trial for result in results for trial in result.finding.trials),
        head,
        relu,
        gaussian_relu(0, [30, *[40] * 60]),
        part,
        hm.enumerate_regions(relu, hm.WholeSpace(2), max_cells=3),
        hm.enumerate_regions(relu, hm.WholeSpace(2), max_cells=3).n_cells,
        hm.stability.temperature_for(relu, hm.Box([-2, -2], [2, 2]), 0.1),
        hm.constructions.NetworkFile(relu, ("relu", "relu", "identity"), "assumed"),
        solid,
        solid[0],
        solid.cells.facets,
        hm.enumerate_regions(relu, hm.Segment([-2.0, 0.1], [2.0, 0.3])),
        part.domain,
        part.cells,
        part.found,
        part.found.outline,
        part.found.measure(1),
        part.decision,
        part.cells.wall_names,
        part.rows(0),
        part.exact_map(0),
        part.decisions,
        part.network,
        *part.network.layers,
        *part.network.layers[0].form_blocks,
        part.network.layers[0].exact_contributions,
        scores,
        scores.forms,
        scores.log_weights(wide[:, :30], 1.0),
        scores.scaled(wide[:, :30], 1.0, 0.0),
        hm.models.EnclosedMap(wide, wide[0]),
        enclosed,
        hm.models.read_activation("relu6"),
        *hm.models.read_activation("relu6").stages[0][0],
        part.neighbours,
        part.statistics,
        certificate,
        hm.verify_certificate(relu, certificate),
        hm.verify_certificate(gaussian_relu(1, [2, 6, 6]), certificate),
        hm.sample_regions(relu, hm.Box([-2, -2], [2, 2]), 200, 0),
        hm.regions.level_set(part, value=0.1),
        transformer,
        *transformer.blocks,
        *transformer.blocks[0].heads,
        transformer.blocks[0].ffn,
        deep,
        compiled,
        compiled.size,
        compiled.float32,
        *compiled.plans,
        mesh,
        mesh.pieces,
        *mesh.pieces.facets,
        hm.constructions.TokenOrigins(np.zeros((40, 30)), np.arange(40)),
        hm.constructions.UnitOrigins(np.zeros((40, 30)), np.arange(40)),
        compiled.token_transformer,
        *compiled.token_transformer.blocks,
        *(head for block in compiled.token_transformer.blocks for head in block.heads),
        fit,
        fit.interpolant,
        fit.compiled,
        fit.compiled.form,
        knots,
        token,
        box,
        hm.WholeSpace(784),
        hm.Segment(np.zeros(784), np.ones(784)),
        hm.Simplex(np.eye(3, 784)),
        hm.Line(np.zeros(784), np.ones(784)),
        hm.Ray(np.zeros(784), np.ones(784)),
        hm.Slice(np.zeros(784), RNG.normal(size=(2, 784)), hm.Box([-1, -1], [1, 1])),
        hm.Slice(np.zeros(784), RNG.normal(size=(3, 784))),
        hm.Polytope.from_points(points),
        hm.Polytope.from_points(points).facets,
        hm.Polytope.from_points(points).generators,
        hm.minkowski_vertices([points, 2 * points]),
        hm.certify_extreme_points(points),
        hm.geometry.normal_fan([points]),
        hm.geometry.common_refinement([hm.AffineForms(points, points[:, 0])] * 2),
        hm.AffineForms(wide, wide[:, 0]),
        hm.models.AffineMap(wide, wide[0]),
        hm.tropical.maximum_cycle_mean(RNG.normal(size=(40, 40))),
        hm.maxplus,
        hm.maxplus(3),
        hm.tropical.longest_paths(-np.abs(wide[:30, :30]), 0),
        hm.tropical.all_longest_paths(-np.abs(wide[:30, :30])),
        hm.exact.scaled_integers(wide),
        polynomial,
        plane,
        plane.dual_subdivision(),
        plane / plane,
        (plane / 0).common_refinement(),
        hm.tropical.relu_network_map([points[:2], points[:2]], [points[0], points[0]]),
        diagram,
        hm.PowerDiagram.from_keys(points[:6]),
        hm.PowerDiagram.from_keys(points[:6]).cells()[0],
        hm.tropical.order_k_diagram(hm.PowerDiagram.from_keys(points[:6]), 2),
        *transformer.network.places,
        *transformer.network.words,
        *checkpoint_parts(),
        *graph_parts(),
        hm.explore(small),
        hm.models.LogLiftedHead(points, points),
        hm.models.Normalisation("rms", gain=np.ones(30)),
        hm.models.NormalisedRouting(head, hm.models.Normalisation("rms", gain=np.ones(30))),
        hm.models.OwnKeyRouting(head, np.eye(30)),
        hm.models.OwnKeyRouting(small, np.eye(2)).wall(0),
        hm.models.OwnKeyRouting(small, np.eye(2)).wall(0).inertia,
        hm.models.NormalisedRouting(small, hm.models.Normalisation("rms", np.ones(2))).wall(0, 1),
        hm.models.SoftCappedHead(head, 30.0),
        hm.models.SparsemaxHead(head),
        hm.MaxoutNetwork([[wide, wide], np.ones((2, 1))], [[wide[:, 0], wide[:, 0]], [0.0]]),
        hm.Record("demo", {"a": wide}, {"b": wide}),
        hm.constructions.maxout_form(knots, hm.Box([0], [49])),
        hm.constructions.DifferenceOfMaxima(plane, plane),
        hm.constructions.LatticeForm(hm.AffineForms(points, points[:, 0]), [[0, 1], [2]]),
        hm.bounds.transformer_table(64, 8, 64, 256, 12),
        *hm.bounds.transformer_table(64, 8, 64, 256, 12),
        *hm.bounds.relu_table(2, [3, 3]),
        hm.stability.stability_table(512, margin=2.0, d_k=64),
        *hm.stability.stability_table(512, margin=2.0, d_k=64).columns,
        hm.stability.certify_head(small, points, 0.1),
        hm.stability.certify_soft(transformer, points, 0.1),
        hm.stability.measure_margins(transformer, points),
        hm.stability.cell_margins(transformer, domain),
        hm.stability.persistence(transformer, domain, 0.05),
        hm.stability.persistent_cells(transformer, domain, 0.1, 0.05),
        hm.stability.margin_bands(small, domain, 0.1),
        hm.stability.hard_share(small, domain, 0.1, 0.05),
        hm.stability.sample_hard_share(small, domain, 0.1, 0.05, 100, 0),
        hm.stability.error_curves(transformer, points, [0.1, 1.0]),
    ]


def graph_parts():
    """Return a graph network, its nodes, and its cells on a segment, on a plane and at a point."""
    build = hm.models.GraphBuilder()
    x = build.input((1, 4, 4))
    h = build.relu(build.convolve(x, RNG.normal(size=(3, 1, 2, 2))))
    h = build.average_pool(h, (3, 3))
    net = build.finish(build.multiply(build.flatten(h), RNG.normal(size=(3, 2))))
    parts = [
        hm.enumerate_regions(net, hm.Segment(RNG.normal(size=16), RNG.normal(size=16))),
        hm.enumerate_regions(
            net, hm.Slice(np.zeros(16), RNG.normal(size=(2, 16)), hm.Box([0, 0], [1, 1]))
        ),
    ]
    cell = hm.cell_at(net, RNG.normal(size=16))
    return [build, net, *net.nodes, *parts, *(part.found for part in parts), cell, cell.wall]


def test_every_public_class_is_among_the_objects_shown():
    made = {cls for obj in shown() for cls in type(obj).__mro__}
    assert set(public_classes()) <= made


def test_a_repr_is_one_short_line():
    for obj in shown():
        assert len(repr(obj)) <= LONGEST, type(obj)
        assert "\n" not in repr(obj), type(obj)


class Markup(HTMLParser):
    """Collects tags and text, and checks that every tag that opens is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words, self.styles = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.styles += [value for name, value in attrs if name == "style"]
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_every_public_object_has_a_card_that_reads_on_light_and_dark_pages():
    plain = hm.tropical.Semiring | hm.tropical.TropicalNumber | hm.regions.AtLeast | tuple
    for obj in shown():
        if isinstance(obj, hm.explorer.Exploration):
            continue  # Its card is the page, in a frame without rights.
        if isinstance(obj, plain):
            continue
        text = obj._repr_html_()
        page = Markup(text)
        assert not {"script", "style", "link", "img", "iframe"} & set(page.tags)
        assert not any("color:#" in style or "background" in style for style in page.styles)
        assert len(text) < 40_000, type(obj)


def test_every_text_on_a_card_is_escaped():
    evil = "<b onload='x'>&"
    record = hm.Record(evil, {evil: evil}, {})
    claim = next(iter(hm.papers.all_claims()))
    cards = [
        format_card(evil, {evil: evil, "list": [evil, evil], "object": record}),
        format_table(evil, [evil], [[evil]]),
        html_card(record),
        dataclasses.replace(claim, id=evil, where=evil, statement=evil)._repr_html_(),
        hm.bounds.BoundTable([hm.bounds.Bound(evil, 3, "upper", evil, evil)])._repr_html_(),
    ]
    for text in cards:
        assert "<b" not in text.replace("<br>", "")
        assert evil in "".join(Markup(text).words)


def test_a_planar_partition_shows_its_cells():
    part = hm.enumerate_regions(gaussian_relu(0, [2, 6, 6]), hm.Box([-2, -2], [2, 2]))
    tags = Markup(part._repr_html_()).tags
    assert tags.count("polygon") == part.n_cells
    assert "regions" not in part._repr_html_()
    assert part.n_regions <= part.n_cells
    assert "regions" in part._repr_html_()


@pytest.mark.parametrize(
    "domain",
    [hm.WholeSpace(2), hm.Box([-2, -2], [200, 2]), hm.Segment([0, 0], [1, 1])],
    ids=["all of the plane", "a long strip", "a line"],
)
def test_a_partition_without_a_picture_says_the_same(domain):
    part = hm.enumerate_regions(gaussian_relu(0, [2, 6, 6]), domain)
    page = Markup(part._repr_html_())
    assert "svg" not in page.tags
    assert repr(part) in "".join(page.words)


def test_a_partition_that_stopped_early_says_so_on_its_card():
    network = gaussian_relu(0, [2, 6, 6])
    part = hm.enumerate_regions(network, hm.Box([-2, -2], [2, 2]), max_cells=5)
    assert "at least" in part._repr_html_()


def test_cards_need_no_plotting_library():
    code = (
        "import sys, hardmax as hm\n"
        "net = hm.ReluNetwork([[[1.0], [1.0]], [[1.0]]], [[0.0], [0.0]])\n"
        "part = hm.enumerate_regions(net, hm.Box([-1, -1], [1, 1]))\n"
        "assert '<svg' in part._repr_html_()\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@dataclasses.dataclass
class Many:
    first: object
    second: object = None
    third: object = None
    _hidden: object = None
    __repr__ = short_repr


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (Many(np.zeros((0, 3))), "Many(first=[], second=None, third=None)"),
        (Many("x" * 500), f"Many(first='{'x' * 57}...', second=None, third=None)"),
        (
            Many(*[["long words"] * 5] * 3),
            "Many(first=<5 items>, second=<5 items>, third=<5 items>)",
        ),
        (Many(len, {1}), "Many(first=len, second={1}, third=None)"),
        (Many(Many(*["x" * 50] * 3)), "Many(first=<Many>, second=None, third=None)"),
    ],
)
def test_fields_are_cut_to_what_can_be_read(obj, text):
    assert repr(obj) == text


def test_too_many_fields_end_in_dots():
    made = dataclasses.make_dataclass("Wide", [f"field_{k}" for k in range(30)])
    text = short_repr(made(*range(30)))
    assert len(text) <= LONGEST
    assert text.endswith(", ...)")
    assert short_repr(dataclasses.make_dataclass("None_", [])()) == "None_()"


def test_cut_and_summary_keep_what_is_short():
    assert (shorten("a  b\nc"), summarize("a"), summarize(())) == ("a b c", "'a'", "()")


# Help


def public_callables():
    for package in PACKAGES:
        for name in package.__all__:
            obj = getattr(package, name)
            if inspect.isclass(obj):
                members = vars(obj).items()
                yield from ((f"{name}.{k}", v) for k, v in members if inspect.isfunction(v))
            if callable(obj):
                yield name, obj


def test_signatures_name_their_types_in_a_few_words():
    for name, obj in public_callables():
        try:
            signature = inspect.signature(obj)
        except (TypeError, ValueError):
            continue
        hints = [parameter.annotation for parameter in signature.parameters.values()]
        for hint in [*hints, signature.return_annotation]:
            words = re.sub(r"\b(?:\w+\.)+", "", inspect.formatannotation(hint))
            assert len(words) <= 90, (name, hint)


def test_help_names_arrays_as_the_documentation_does():
    text = pydoc.plain(pydoc.render_doc(hm.tropical.longest_paths))
    text = text.replace("hardmax.typing.", "")  # Python 3.14 leaves the module out.
    assert "longest_paths(weights: ArrayLike, source: int)" in text
    assert "Union" not in text
    assert isinstance([1.0], ArrayLike)
    assert isinstance(np.zeros(2), FloatArray)
    assert not isinstance([1.0], FloatArray)


def test_help_on_plot_lists_every_type_and_every_option():
    text = pydoc.plain(pydoc.render_doc(hm.plot))
    types = {cls: draw for cls, draw in draw_registered.registry.items() if cls is not object}
    assert hm.Partition in types
    for cls, draw in types.items():
        section = re.search(rf"^ +{cls.__name__}: (?:.*\n)+?(?= {{8}}\w+: |\Z)", text, re.MULTILINE)
        assert section, cls
        for option in inspect.signature(draw).parameters.values():
            assert option.kind is not option.VAR_KEYWORD
            if option.kind is option.KEYWORD_ONLY:
                assert f"{option.name}={option.default!r}: " in section[0], (cls, option)


def test_a_planar_diagram_and_a_head_show_their_cells():
    keys = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])
    diagram = hm.PowerDiagram.from_keys(keys)
    head = hm.AttentionHead(np.ones((3, 2)), keys, keys, np.eye(2))
    for obj in (diagram, head):
        html = obj._repr_html_()
        assert html.count("<polygon") == 3
        # A rim and a circle for each key that can win.
        assert html.count("<circle") == 6
    pulled_back = hm.AttentionHead(np.eye(2, 3), np.eye(3), np.eye(3), np.eye(3))
    assert "<polygon" in pulled_back._repr_html_()
    line = hm.AttentionHead(np.eye(3, 1), keys[:, :1], keys, np.eye(2))
    huge = hm.PowerDiagram.from_keys(1e200 * keys)
    for obj in (line, huge, hm.PowerDiagram.from_keys(np.eye(3))):
        assert "<svg" not in obj._repr_html_()


def test_one_cell_is_not_called_cells():
    net = hm.ReluNetwork([[[1.0]], [[1.0]]])
    part = hm.enumerate_regions(net, hm.Box([1], [2]))
    build = hm.models.GraphBuilder()
    x = build.input((1,))
    graph = build.finish(build.add(x, build.relu(x)))
    drawn = part, part.certificate(), hm.enumerate_regions(graph, hm.Segment([1.0], [2.0]))
    for obj in (*drawn, hm.PowerDiagram.from_keys([[1.0, 2.0]])):
        assert re.search(r"\b1 (cell|site)\b", repr(obj))
        assert not re.search(r"\b1 \w+s\b", repr(obj)), repr(obj)
