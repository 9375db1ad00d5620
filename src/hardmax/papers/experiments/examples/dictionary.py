"""Tables I and II of [SL26]: the symbols as arrays, and every entry of the dictionary tested."""

from dataclasses import dataclass
from math import log

import numpy as np

from hardmax.bounds import zaslavsky
from hardmax.geometry.domains import Line
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.polytopes import Polytope
from hardmax.geometry.refinement import common_refinement
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, HardTransformer
from hardmax.models.variants.log_lifted import LogLiftedHead
from hardmax.papers.registry import Outcome
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram
from hardmax.tropical.matrices.deformed import deformed_add
from hardmax.tropical.matrices.semiring import maxplus
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.typing import FloatArray


@dataclass(frozen=True)
class Parameters:
    """Sizes that are all different, so that shapes identify them, and a temperature."""

    n_keys: int = 6
    dim: int = 4
    head_dim: int = 3
    value_dim: int = 2
    tau: float = 0.25
    seed: int = 12


@dataclass(frozen=True)
class Entry:
    """A row of Table II: the interpretation in the paper, and whether it passed the test."""

    concept: str
    reading: str
    holds: bool
    remark: str


def run(parameters: Parameters) -> Outcome:
    """Evaluate every symbol for a concrete head, and test every row of the dictionary."""
    symbols, entries = _evaluate_symbols(parameters), _test_dictionary(parameters)
    n_holding = sum(entry.holds for entry in entries)
    residual = next(entry for entry in entries if entry.concept == "Residual")
    return Outcome(
        {"n_symbols": len(symbols), "n_entries": len(entries), "n_holding": n_holding},
        f"{len(symbols)} symbols are arrays or functions here, with the shapes given in the "
        f"table. {n_holding} of {len(entries)} rows of the dictionary hold; the residual row "
        f"holds cell by cell: {residual.remark}.",
        claimed=(
            "Table I lists the notation; Table II is a rigorous mapping between layers, tropical "
            "algebra and geometry."
        ),
        claims=("Tab1", "Tab2"),
        tables={
            "symbols": symbols,
            "dictionary": [
                {"concept": e.concept, "reading": e.reading, "holds": e.holds, "remark": e.remark}
                for e in entries
            ],
        },
    )


def _evaluate_symbols(p: Parameters) -> list[dict[str, str]]:
    rng = np.random.default_rng(p.seed)
    head = AttentionHead(
        rng.normal(size=(p.dim, p.head_dim)),
        rng.normal(size=(p.n_keys, p.head_dim)),
        rng.normal(size=(p.n_keys, p.value_dim)),
        rng.normal(size=(p.value_dim, p.dim)),
    )
    x = rng.normal(size=(1, p.dim))
    lifted = LogLiftedHead(head.keys, head.values)
    diagram = PowerDiagram.from_keys(head.keys)
    rows = (
        ("W_Q", "query weight", "head.query_weight", head.query_weight.shape),
        ("k_j", "keys", "head.keys", head.keys.shape),
        ("v_j", "values", "head.values", head.values.shape),
        ("W_O", "output weight", "head.output_weight", head.output_weight.shape),
        ("a_j", "composite keys W_Q k_j", "head.forms.slopes", head.forms.slopes.shape),
        ("p_j", "softmax weights", "head.attention_weights", head.attention_weights(x, 1.0).shape),
        ("Z(q; tau)", "attention output", "head.soft", head.soft(x, p.tau).shape),
        ("v~_jc", "log-lifted values", "lifted.lifted_values", lifted.lifted_values.shape),
        ("w_j", "weights of the sites", "diagram.weights", diagram.weights.shape),
        ("C_j", "power cells", "diagram.cells()", (len(diagram.cells()),)),
        ("R(n, d)", "regions of n hyperplanes", "bounds.zaslavsky", (zaslavsky(5, 3),)),
    )
    return [
        {"symbol": symbol, "meaning": meaning, "name": name, "shape": str(shape)}
        for symbol, meaning, name, shape in rows
    ]


def _test_dictionary(p: Parameters) -> list[Entry]:
    rng = np.random.default_rng(p.seed)
    P, Q = (TropicalPolynomial(_draw_keys(rng, p), np.zeros(p.n_keys)) for _ in range(2))
    a, b = rng.normal(size=(2, 100))
    x = rng.normal(size=(200, p.dim))
    gap = deformed_add(a, b, p.tau) - maxplus.add(a, b)
    hull = Polytope.from_points(np.vstack([P.slopes, Q.slopes]))
    joined = (P + Q).newton_polytope()
    total = minkowski_vertices([P.slopes, Q.slopes])
    product = (P * Q).newton_polytope()
    refined = common_refinement([P.forms, Q.forms])
    one, signs = np.eye(1), np.array([[-1.0], [1.0]])
    layer = HardTransformer([Block([AttentionHead(one, signs, signs, one)])])
    part = enumerate_regions(layer, Line(np.zeros(1), np.ones(1)))
    maps = [layer.affine_map(name) for name in part.signatures]
    shifts = {float(bias[0]) for _, bias in maps}
    return [
        Entry(
            "Addition",
            "LogSumExp tends to max; Newton polytopes: the hull of both",
            bool((gap >= 0).all() and (gap <= p.tau * log(2) * (1 + 1e-12)).all())
            and len(joined.vertices) == len(hull.vertices),
            f"the gap is at most tau log 2 = {p.tau * log(2):.4f}",
        ),
        Entry(
            "Multiplication",
            "plus; Newton polytopes: the Minkowski sum",
            len(product.vertices) == total.count,
            f"{total.count} vertices in both computations",
        ),
        Entry(
            "Division",
            "minus; a difference of convex functions",
            bool(np.allclose((P(x) - Q(x)) + Q(x), P(x))),
            "not a convex function, hence no Newton polytope of its own",
        ),
        Entry(
            "Residual",
            "x + Layer(x) shifts the degree: a translation",
            all(np.array_equal(weight, one) for weight, _ in maps),
            f"hard attention shifts {part.n_cells} cells by {len(shifts)} different vectors, so "
            "the stream jumps at the wall",
        ),
        Entry(
            "Attention denominator",
            "softmax denominator: a tropical polynomial, a convex surface",
            bool(np.all(P((x[::2] + x[1::2]) / 2) <= (P(x[::2]) + P(x[1::2])) / 2 + 1e-9)),
            "convex on 100 random segments",
        ),
        Entry(
            "Multi-head",
            "the product of the heads: the common refinement of the fans",
            refined.count == total.count,
            f"{refined.count} joint cells = {total.count} vertices of the sum",
        ),
    ]


def _draw_keys(rng: np.random.Generator, p: Parameters) -> FloatArray:
    return np.asarray(np.round(64 * rng.normal(size=(p.n_keys, p.dim))) / 64)
