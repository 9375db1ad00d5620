"""All public functions accept the same models and domains.

The table below has a call of each function. A new public function with an argument `model`,
`domain` or `box` fails here until the table has a call of it, and until it accepts paths, modules
and text.
"""

import inspect
import re
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import hardmax as hm
from hardmax._ground.public_names import PACKAGES
from hardmax.errors import ArgumentError, DtypeError, HardmaxError, RecordFormatError
from hardmax.models import TokenBlock, TokenHead, TokenTransformer

mpl.use("Agg")

MODELS, PLACES = {"model", "obj", "net"}, {"domain", "box"}
SQUARE = "box:-1,1^2"
RELU = hm.ReluNetwork([[[1.0, 1.0, 0.5], [1.0, -1.0, 0.0]], [[1.0], [1.0], [-1.0]]])
MAXOUT = hm.MaxoutNetwork([[np.eye(2), -np.eye(2)], np.ones((2, 1))])
HEAD = hm.AttentionHead(np.eye(2), [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], np.eye(3, 2), np.eye(2))
BLOCK = hm.Block([HEAD])
TRANSFORMER = hm.HardTransformer([BLOCK])
PASSES_SCORE = TokenHead([[0.0], [1.0]], [[1.0], [0.0]], [[1.0], [0.0]], [[1.0, 0.0]])
POINT, KNOTS = [0.3, 0.2], hm.constructions.Knots([0.0, 1.0], [0.0, 1.0])
ABSOLUTE = TokenTransformer(
    [[[1.0, 0.0], [-1.0, 0.0]]],
    [[0.0, 1.0], [0.0, 1.0]],
    [TokenBlock([PASSES_SCORE], attention_residual=False)],
    hm.models.AffineMap([[1.0], [0.0]], [0.0]),
)


@cache
def folder():
    return Path(mkdtemp())


@cache
def stored(name):
    """Return a file of a partition, a store or a network."""
    path = folder() / name
    if name == "store":
        hm.enumerate_regions(RELU, SQUARE, store=path)
    elif name.endswith(".parquet"):
        hm.save_partition(hm.enumerate_regions(RELU, SQUARE), path)
    else:
        hm.save_model({"relu": RELU, "maxout": MAXOUT, "heads": TRANSFORMER}[path.stem], path)
    return path


@dataclass
class Call:
    """A call of a public function: a model, a domain, and other arguments."""

    model: Any = None
    domain: str | None = None
    others: dict[str, Any] = field(default_factory=dict)
    owner: Any = None
    needs: str = ""

    def __post_init__(self):
        if self.needs:
            pytest.importorskip(self.needs)


def mesh():
    square = [[0, 0], [1, 0], [0, 1], [1, 1]]
    return hm.constructions.Mesh(square, [[0, 1, 2], [1, 2, 3]], [0, 0, 0, 1])


def forms(*slopes):
    return hm.AffineForms([[float(slope)] for slope in slopes], [0.0] * len(slopes))


CALLS = {
    "hardmax.enumerate_regions": lambda: Call(RELU, SQUARE),
    "hardmax.sample_regions": lambda: Call(RELU, SQUARE, {"n_samples": 50, "seed": 0}),
    "hardmax.cell_at": lambda: Call(RELU, None, {"x": POINT}),
    "hardmax.explore": lambda: Call(RELU, SQUARE),
    "hardmax.plot": lambda: Call(RELU, SQUARE),
    "hardmax.save_model": lambda: Call(RELU, None, {"path": folder() / "again.safetensors"}),
    "hardmax.to_torch": lambda: Call(RELU, needs="torch"),
    "hardmax.load_partition": lambda: Call(
        RELU, SQUARE, {"path": stored("cells.parquet")}, needs="pyarrow"
    ),
    "hardmax.open_partition": lambda: Call(RELU, None, {"path": stored("store")}, needs="pyarrow"),
    "hardmax.verify_certificate": lambda: Call(
        RELU, SQUARE, {"certificate": hm.enumerate_regions(RELU, SQUARE).certificate()}
    ),
    "hardmax.regions.make_certificate": lambda: Call(
        RELU, SQUARE, {"signatures": hm.enumerate_regions(RELU, SQUARE).signatures}
    ),
    "hardmax.stability.cell_margins": lambda: Call(TRANSFORMER, SQUARE),
    "hardmax.stability.certify_soft": lambda: Call(TRANSFORMER, None, {"x": POINT, "tau": 0.5}),
    "hardmax.stability.error_curves": lambda: Call(TRANSFORMER, None, {"x": POINT, "taus": [0.5]}),
    "hardmax.stability.hard_share": lambda: Call(TRANSFORMER, SQUARE, {"tau": 0.1, "epsilon": 0.1}),
    "hardmax.stability.margin_bands": lambda: Call(TRANSFORMER, SQUARE, {"delta": 0.1}),
    "hardmax.stability.measure_margins": lambda: Call(RELU, None, {"x": POINT}),
    "hardmax.stability.persistence": lambda: Call(TRANSFORMER, SQUARE, {"epsilon": 0.1}),
    "hardmax.stability.persistent_cells": lambda: Call(
        TRANSFORMER, SQUARE, {"tau": 0.1, "epsilon": 0.1}
    ),
    "hardmax.stability.sample_hard_share": lambda: Call(
        TRANSFORMER, SQUARE, {"tau": 0.1, "epsilon": 0.1, "n_samples": 20}
    ),
    "hardmax.stability.sample_margin_share": lambda: Call(
        RELU, SQUARE, {"delta": [], "n_samples": 20}
    ),
    "hardmax.stability.temperature_for": lambda: Call(TRANSFORMER, SQUARE, {"error": 10.0}),
    "hardmax.constructions.compile_maxout": lambda: Call(MAXOUT, SQUARE),
    "hardmax.constructions.compile_relu": lambda: Call(RELU, SQUARE),
    "hardmax.constructions.compile_file": lambda: Call(
        None, SQUARE, {"path": stored("relu.safetensors")}
    ),
    "hardmax.constructions.compile_cpwl": lambda: Call(None, "box:-1,1", {"f": KNOTS}),
    "hardmax.constructions.maxout_form": lambda: Call(None, "box:-1,1", {"f": KNOTS}),
    "hardmax.constructions.maxout_from_knots": lambda: Call(None, "box:-1,1", {"knots": KNOTS}),
    "hardmax.constructions.maxout_from_segments": lambda: Call(None, "box:-1,1", {"knots": KNOTS}),
    "hardmax.constructions.maxout_from_hats": lambda: Call(None, "box:0,1^2", {"f": mesh()}),
    "hardmax.constructions.maxout_from_mesh": lambda: Call(None, "box:0,1^2", {"mesh": mesh()}),
    "hardmax.constructions.maxout_from_difference": lambda: Call(
        None,
        "box:-1,1",
        {"difference": hm.constructions.DifferenceOfMaxima(forms(1, -1), forms(0))},
    ),
    "hardmax.constructions.maxout_from_lattice": lambda: Call(
        None,
        "box:-1,1",
        {"lattice": hm.constructions.LatticeForm(forms(1, -1), [[0, 1]])},
    ),
    "hardmax.constructions.maxout_from_rational_map": lambda: Call(
        None, "box:-1,1", {"rational": hm.TropicalRationalMap.from_affine([[1.0]])}
    ),
    "hardmax.constructions.maxout_from_partition": lambda: Call(
        None, SQUARE, {"partition": hm.enumerate_regions(RELU, SQUARE)}
    ),
    "hardmax.constructions.approximate": lambda: Call(
        None, "box:-1,1", {"f": lambda x: np.abs(x[:, 0]), "n_pieces": 2}
    ),
    "hardmax.geometry.domain_text": lambda: Call(None, SQUARE),
    "hardmax.Polytope.intersection": lambda: Call(
        None, SQUARE, owner=hm.Polytope([[1.0, 1.0]], [0.0])
    ),
    "hardmax.PowerDiagram.cells": lambda: Call(
        None, SQUARE, owner=hm.PowerDiagram.from_keys(np.eye(2))
    ),
    "hardmax.models.TokenTransformer.network_on": lambda: Call(None, "box:-1,1", owner=ABSOLUTE),
    "hardmax.plotting.animate_depth": lambda: Call(
        None,
        SQUARE,
        {"partition": hm.enumerate_regions(RELU, SQUARE), "path": folder() / "depth.html"},
    ),
    "hardmax.plotting.animate_temperature": lambda: Call(
        None,
        SQUARE,
        {"head": HEAD, "temperatures": [1.0], "path": folder() / "head.html", "resolution": 4},
    ),
    "hardmax.plotting.plot_annealing": lambda: Call(
        None, SQUARE, {"head": HEAD, "temperatures": [1.0], "resolution": 4}
    ),
}
_WEIGHTS = "the trained weights that its activations were computed with"
EXEMPT = {
    "hardmax.analyze_heads": "a checkpoint: what `load_checkpoint` loads",
    "hardmax.surveys.survey_heads": "a checkpoint: what `load_checkpoint` loads",
    "hardmax.models.head_effects": _WEIGHTS,
    "hardmax.models.joint_effects": _WEIGHTS,
    "hardmax.surveys.token_slices": _WEIGHTS,
    "hardmax.models.heads_from_tokens": "a TokenTransformer, which no file or module holds",
    "hardmax.papers.sweep_points": "text alone, as sweeps keep their domains",
}
CHECKPOINTS = [name for name, why in EXEMPT.items() if why.startswith("a checkpoint")]


def public_functions():
    """Yield public functions, and public methods of public classes, with their names."""
    for package in PACKAGES:
        for name in import_module(package).__all__:
            obj = getattr(import_module(package), name)
            if inspect.isfunction(obj):
                yield f"{package}.{name}", obj
            if inspect.isclass(obj) and obj.__module__.startswith("hardmax"):
                for method, member in vars(obj).items():
                    if inspect.isfunction(member) and not method.startswith("_"):
                        yield f"{package}.{name}.{method}", member


FOUND = dict(public_functions())


def argument(name, wanted):
    """Return the name of the argument that is a model or a domain; None if there is none."""
    return next((one for one in inspect.signature(FOUND[name]).parameters if one in wanted), None)


WITH_MODEL = [name for name in CALLS if name in FOUND and argument(name, MODELS)]
WITH_PLACE = [name for name in CALLS if name in FOUND and argument(name, PLACES)]


def answer(name, call, **given):
    """Call a function with some arguments of the table replaced; return its result or error."""
    function = FOUND[name]
    arguments = {argument(name, MODELS): call.model, argument(name, PLACES): call.domain}
    arguments.pop(None, None)
    arguments |= {**call.others, **given}
    owner = () if call.owner is None else (call.owner,)
    result = function(*owner, **{key: x for key, x in arguments.items() if x is not None})
    plt.close("all")
    return re.sub(r"0x[0-9a-f]+", "", repr(result))


def test_every_public_function_with_a_model_or_a_domain_is_called_here():
    wanted = {name for name in FOUND if argument(name, MODELS) or argument(name, PLACES)}
    assert wanted == set(CALLS) | set(EXEMPT)


@pytest.mark.parametrize("name", WITH_MODEL)
def test_a_model_may_be_the_path_of_its_file(name):
    call = CALLS[name]()
    stem = {id(RELU): "relu", id(MAXOUT): "maxout", id(TRANSFORMER): "heads"}[id(call.model)]
    path, where = stored(f"{stem}.safetensors"), argument(name, MODELS)
    wanted = answer(name, call)
    assert answer(name, call, **{where: path}) == wanted
    assert answer(name, call, **{where: str(path)}) == wanted


@pytest.mark.parametrize("name", WITH_MODEL)
def test_a_file_that_is_no_model_is_named(name):
    call, where = CALLS[name](), argument(name, MODELS)
    garbage = folder() / "garbage.safetensors"
    garbage.write_bytes(b"garbage")
    missing = str(folder() / "no_such_net.safetensors")
    with pytest.raises(ArgumentError, match=f"`{where}` .*'{missing}': No such file"):
        answer(name, call, **{where: missing})
    with pytest.raises(RecordFormatError, match=f"`{where}` must .*{garbage}"):
        answer(name, call, **{where: garbage})


@pytest.mark.parametrize("name", WITH_MODEL)
def test_a_model_may_be_a_torch_module(name):
    nn = pytest.importorskip("torch").nn
    call, where = CALLS[name](), argument(name, MODELS)
    if call.model is RELU:
        module = hm.to_torch(RELU)
        assert answer(name, call, **{where: module}) == answer(name, call)
        if name not in ("hardmax.constructions.compile_relu", "hardmax.explore"):
            assert answer(name, call, **{where: [*module]}) == answer(name, call)
    softmax = nn.Sequential(nn.Linear(2, 2), nn.Softmax(-1), nn.Linear(2, 1))
    with pytest.raises(HardmaxError, match="Softmax"):
        answer(name, call, **{where: softmax})


@pytest.mark.parametrize("name", WITH_PLACE)
def test_a_domain_may_be_text(name):
    call, where = CALLS[name](), argument(name, PLACES)
    assert answer(name, call) == answer(name, call, **{where: hm.parse_domain(call.domain)})


@pytest.mark.parametrize("name", WITH_PLACE)
def test_text_that_is_no_domain_is_quoted(name):
    call, where = CALLS[name](), argument(name, PLACES)
    for text in ("bix:-1,1^2", "box:-1,one^2", "/no/such/file"):
        pattern = f"`{where}` must be a domain.*'{re.escape(text)}'"
        with pytest.raises(ArgumentError, match=pattern):
            answer(name, call, **{where: text})


# A certificate about another domain gets a negative verdict, and a picture shows the part in view.
_ANYWHERE = {
    "hardmax.geometry.domain_text",
    "hardmax.verify_certificate",
    "hardmax.plotting.animate_depth",
}


@pytest.mark.parametrize("name", [name for name in WITH_PLACE if name not in _ANYWHERE])
def test_text_of_a_domain_in_another_space_is_refused(name):
    call, where = CALLS[name](), argument(name, PLACES)
    with pytest.raises(HardmaxError, match=f"`{where}`"):
        answer(name, call, **{where: "box:-1,1^5"})


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_may_be_its_path(name, tmp_path):
    weights = hm.load_checkpoint("hardmax")
    import hardmax.models.checkpoints.sorter as sorter

    home = Path(sorter.__file__).parent
    rest = {"with_effects": False} if "survey" in name else {}
    found = FOUND[name](home, [2, 0, 1, 26], **rest)
    assert repr(found) == repr(FOUND[name](weights, [2, 0, 1, 26], **rest))
    with pytest.raises(HardmaxError, match=r"`model` .*no_such_folder"):
        FOUND[name](tmp_path / "no_such_folder", [2, 0, 1, 26])


# Heads and blocks are parts of models.


def test_a_head_and_a_block_are_models():
    alone = hm.HardTransformer([hm.Block([HEAD], attention_residual=False)])
    for part, whole in ((HEAD, alone), (BLOCK, TRANSFORMER)):
        found, wanted = (hm.enumerate_regions(model, SQUARE) for model in (part, whole))
        assert found.n_cells == wanted.n_cells == 3
        assert found.certificate().to_json() == wanted.certificate().to_json()
        assert hm.verify_certificate(part, wanted.certificate(), SQUARE)
        assert hm.sample_regions(part, SQUARE, 100, 0).distinct == 3
        assert hm.plot(part, SQUARE).get_xlim() == (-1.0, 1.0)
        shown = hm.explore(part, SQUARE).start["regions"]
        assert shown["name"] == repr(part)
        plt.close("all")
    path = folder() / "block.safetensors"
    hm.save_model(BLOCK, path)
    assert isinstance(hm.load_model(path), hm.HardTransformer)
    hm.save_model(HEAD, path)
    assert isinstance(hm.load_model(path), hm.AttentionHead)


def test_what_is_neither_model_nor_path_is_refused():
    for wrong in (3, None, [[1.0]], {"0.weight": np.eye(2)}):
        with pytest.raises(DtypeError, match=f"`model` must be .*got {type(wrong).__name__}"):
            hm.enumerate_regions(wrong, SQUARE)
    with pytest.raises(DtypeError, match=r"'box:-1,1\^2'; got ReluNetwork"):
        hm.enumerate_regions(RELU, RELU)


def test_a_slice_takes_the_text_of_its_box():
    given = hm.Slice([0, 0, 1], [[1, 0, 0], [0, 1, 0]], SQUARE)
    assert hm.geometry.domain_text(given) == f"slice:0,0,1;1,0,0;0,1,0|{SQUARE}"
    with pytest.raises(ArgumentError, match=r"`box` must be a domain.*'bix'"):
        hm.Slice([0, 0], [[1, 0]], "bix")


def test_a_module_that_needs_more_says_which_function_takes_it():
    nn = pytest.importorskip("torch").nn
    with pytest.raises(ArgumentError, match=r"`model` .*`hm\.from_torch`.*`memory`"):
        hm.enumerate_regions([nn.MultiheadAttention(2, 1)], SQUARE)


def test_torch_is_not_imported_for_a_model_without_it():
    import subprocess
    import sys

    code = (
        "import sys, hardmax as hm;"
        f"hm.enumerate_regions({str(stored('relu.safetensors'))!r}, {SQUARE!r});"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
