"""Appendix E and Figure 7 of [SL26]: composition of attention, feed-forward layers and depth."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.bounds import zaslavsky
from hardmax.constructions.families.literal_shattering import literal_shattering_transformer
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.refinement import common_refinement
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.papers.claims import (
    Claim,
    Finding,
    bracket_trial,
    equal_trial,
    lower_trial,
    upper_trial,
)
from hardmax.papers.subjects.enclosures import ball, working_precision
from hardmax.papers.subjects.instances import forms_of_keys, integer_keys, largest_jump, sign_head
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def two_tokens(values: Sequence[float]) -> AttentionHead:
    """Return a head on a line with keys -1 and 1 and the given two values."""
    ends = np.array([[-1.0], [1.0]])
    return AttentionHead(np.eye(1), ends, np.array(values)[:, None], np.eye(1))


def units(kinks: Sequence[float]) -> FeedForward:
    """Return a layer on a line with units that bend at these points, the second twice as much."""
    n = len(kinks)
    return FeedForward(np.ones((1, n)), -np.array(kinks), np.arange(1.0, n + 1)[:, None], None)


def _unit_forms(ffn: FeedForward, shift: FloatArray) -> list[AffineForms]:
    bias = np.zeros(ffn.d_ff) if ffn.b_in is None else ffn.b_in
    bias = bias + shift @ ffn.w_in
    zero = np.zeros(ffn.dim)
    return [
        AffineForms(np.stack([row, zero]), np.array([offset, 0.0]))
        for row, offset in zip(ffn.w_in.T, bias, strict=True)
    ]


def refine_together(head: AttentionHead, ffn: FeedForward) -> int:
    """Count the cells of the common refinement of the two superimposed partitions."""
    return common_refinement([head.forms, *_unit_forms(ffn, np.zeros(ffn.dim))]).count


def refine_cell_by_cell(head: AttentionHead, ffn: FeedForward) -> int:
    """Count the cells if each routing cell translates the hyperplanes by its own value."""
    forms, total = head.forms, 0
    for j, value in enumerate(head.values @ head.output_weight):
        others = [i for i in range(forms.n_forms) if i != j]
        inside = (
            forms.slopes[others] - forms.slopes[j],
            forms.offsets[j] - forms.offsets[others],
        )
        total += common_refinement(_unit_forms(ffn, value), inside).count
    return total


def _check_block(predicted: Callable[[AttentionHead, FeedForward], int]) -> Finding:
    keys, values = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[-6.0, 0.0], [6.0, 0.0]])
    plane = AttentionHead(np.eye(2), keys, values, np.eye(2))
    cross = FeedForward(np.array([[1.0, 1.0], [1.0, -2.0]]), np.array([-1.0, 3.0]), np.eye(2), None)
    cases = {
        "y = x + 5 sign x, one unit bending at 1": (two_tokens([-5.0, 5.0]), units([1.0])),
        "y = x - 5 sign x, one unit bending at 0": (two_tokens([5.0, -5.0]), units([0.0])),
        "y = x - 5 sign x, two units": (two_tokens([5.0, -5.0]), units([0.0, 1.0])),
        "2 tokens and 2 neurons in the plane": (plane, cross),
    }
    trials = []
    for name, (head, ffn) in cases.items():
        model = HardTransformer([Block([head], ffn)])
        true = enumerate_regions(model, WholeSpace(head.dim)).n_cells
        trials.append(equal_trial(name, true, predicted(head, ffn)))
    pairs = ", ".join(f"{t.numbers['true']} and {t.numbers['claimed']}" for t in trials)
    return Finding(
        tuple(trials),
        f"Numbers of cells of the block and of the common refinement: {pairs}. Each routing cell "
        "adds its own value to the stream, so the hyperplanes have a different position in each "
        "cell.",
        "In every routing cell, the hyperplanes are pulled back by that cell's translation. The "
        "product of the two counts is still an upper bound.",
        lambda: _block_figure(*cases["2 tokens and 2 neurons in the plane"]),
    )


def _check_shattering(least: Callable[[int], int]) -> Finding:
    trials = []
    for name, values, kinks in (
        ("y = x - 5 sign x, two units", [5.0, -5.0], [0.0, 1.0]),
        ("y = x + 5 sign x, one unit bending at 1", [-5.0, 5.0], [1.0]),
        ("y = x + 5 sign x, two units", [-5.0, 5.0], [1.0, -2.0]),
    ):
        model = HardTransformer([Block([two_tokens(values)], units(kinks))])
        winners = enumerate_regions(model, WholeSpace(1)).signatures[:, 0]
        pieces = [int((winners == j).sum()) for j in (0, 1)]
        where = f"{name}: pieces of the routing cell with the fewest"
        trials.append(
            lower_trial(
                where, min(pieces), least(len(kinks)), extremal=min(pieces) == 1, pieces=pieces
            )
        )
    listed = ", ".join(str(t.numbers["pieces"]) for t in trials)
    return Finding(
        tuple(trials),
        f"Numbers of pieces of the two routing cells: {listed}. A cell whose values move the "
        "stream away from the hyperplanes is not cut at all.",
        "A routing cell has at least 1 piece, and may have only 1.",
    )


def _block_figure(head: AttentionHead, ffn: FeedForward) -> "Figure":
    from matplotlib.figure import Figure

    grid = np.linspace(-9.0, 9.0, 361)
    x = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    bias = np.zeros(ffn.d_ff) if ffn.b_in is None else ffn.b_in
    routed = x @ (head.keys[1] - head.keys[0]) > 0
    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    for axes, stream, title in zip(
        figure.subplots(1, 2),
        (x, x + head.values[routed.astype(int)]),
        ("superimposed", "the block"),
        strict=True,
    ):
        on = stream @ ffn.w_in + bias > 0
        labels = routed * 4 + on[:, 0] * 2 + on[:, 1]
        axes.imshow(labels.reshape(361, 361), origin="lower", extent=(-9, 9, -9, 9), cmap="tab10")
        axes.set_title(title)
    return figure


def _check_refinement_product(bound: Callable[[int, int], int]) -> Finding:
    slabs = [
        AffineForms(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]), np.array([0.0, 0.0, -1.0]))
    ]
    slabs.append(AffineForms(slabs[0].slopes[:, ::-1], slabs[0].offsets))
    cases = {"two families of parallel walls in the plane": slabs}
    for seed in range(3):
        keys = [integer_keys(seed + 5 * h, 5, 2, 40) for h in range(2)]
        offsets = [integer_keys(90 + seed + 5 * h, 5, 1, 40)[:, 0] for h in range(2)]
        cases[f"random forms {seed}"] = list(map(forms_of_keys, keys, offsets))
    trials = []
    for name, (first, second) in cases.items():
        sizes = [common_refinement([forms]).count for forms in (first, second)]
        both = common_refinement([first, second]).count
        extremal = first is slabs[0]
        trials.append(upper_trial(name, both, bound(*sizes), extremal=extremal, sizes=sizes))
    pairs = ", ".join(f"{t.numbers['true']} <= {t.numbers['claimed']}" for t in trials)
    return Finding(tuple(trials), f"Cells of the refinements, and the products: {pairs}.")


def _check_hyperplane_estimate(estimate: Callable[[int, int, Any], Any]) -> Finding:
    trials = []
    with working_precision():
        e = ball(1).exp()
        for n, d in ((1, 1), (4, 4), (8, 2), (64, 16), (2048, 512), (1, 4), (3, 8)):
            claimed = estimate(n, d, e)
            numbers = {"cells": zaslavsky(n, d), "estimate": str(claimed.str(6, radius=False))}
            where = f"d_ff = {n}, d = {d}"
            trials.append(
                bracket_trial(
                    where,
                    ball(zaslavsky(n, d)),
                    claimed,
                    condition=n >= d,
                    extremal=n < d,
                    **numbers,
                )
            )
    bad = [t for t in trials if not t.holds]
    listed = ", ".join(
        f"{t.numbers['cells']} > {t.numbers['estimate']} ({t.instance})" for t in bad
    )
    return Finding(
        tuple(trials),
        f"Holds for d_ff >= d. Failures for smaller d_ff: {listed or 'none'}.",
        "True for d_ff >= d; for d_ff < d there are at most 2^d_ff cells.",
    )


def _check_continuity(largest: Callable[[float], float]) -> Finding:
    smooth = HardTransformer([Block([], units([0.0, 2.0]))])
    trials = []
    for name, model in (
        ("a block without attention", smooth),
        ("x + sign x: keys and values -1 and 1", HardTransformer([Block([sign_head()])])),
        ("the attention part of Theorem V.7, N = 4", _attention_part()),
    ):
        jump = largest_jump(model)
        spread = max((float(np.ptp(h.values)) for b in model.blocks for h in b.heads), default=0.0)
        trials.append(
            upper_trial(name, jump, largest(spread), extremal=name.startswith("x + sign"))
        )
    return Finding(
        tuple(trials),
        "The largest jumps over the walls are "
        f"{', '.join(str(t.numbers['true']) for t in trials)}. A hard head returns a different "
        "value on the other side of a wall.",
        "The map is piecewise affine, with jumps as large as the differences between the values "
        "of a head. The count remains valid, because the map is affine on each cell.",
    )


def _attention_part() -> HardTransformer:
    return HardTransformer([Block(literal_shattering_transformer(4, 1, 1, 2).blocks[0].heads)])


def _check_recurrence(count: Callable[[Any], int]) -> Finding:
    # Two of the three cells have the same value; their union is a region that is not convex.
    keys, values = [[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [[5.0, 5.0], [0.0, 0.0], [0.0, 0.0]]
    head = AttentionHead(np.eye(2), np.array(keys), np.array(values), np.eye(2))
    trials = []
    for offset in (-11.0, -9.0, 3.0):
        cut = FeedForward(
            np.array([[1.0], [1.0]]), np.array([offset]), np.array([[1.0, 0.0]]), None
        )
        models = [HardTransformer([Block([head])]), HardTransformer([Block([], cut)])]
        models.append(HardTransformer([Block([head]), Block([], cut)]))
        first, second, both = (count(enumerate_regions(m, WholeSpace(2))) for m in models)
        where = f"three keys, two of the values equal, then one unit bending at {-offset:g}"
        trials.append(
            upper_trial(
                where, both, first * second, extremal=offset == -11.0, first=first, second=second
            )
        )
    worst = trials[0].numbers
    return Finding(
        tuple(trials),
        f"The first layer has {worst['first']} regions, the second {worst['second']}, and their "
        f"composition {worst['true']}. If maximal regions are counted, this is more than the "
        f"product {worst['claimed']}, because a region that is not convex can meet a half-space "
        "in several pieces.",
        "The recurrence holds for cells, which are convex.",
    )


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "AppE.4",
        "SL26",
        "Appendix E, the FFN partition",
        "proof step",
        "d_ff hyperplanes have at most (e d_ff / d)^d cells.",
        content=lambda n, d, e: (e * n / d) ** d,
        check=_check_hyperplane_estimate,
        corrupted=lambda n, d, e: (ball(n) / d) ** d,
        repaired=lambda n, d, e: (e * n / d) ** d if n >= d else ball(2**n),
        unmoved={"content": "nothing attains this estimate; moved by 0.1 % it is still a bound"},
    ),
    Claim(
        "Fig7a",
        "SL26",
        "Figure 7 and Appendix E",
        "figure",
        "The partition of a block is the common refinement of its attention partition and its "
        "feed-forward hyperplanes.",
        content=refine_together,
        check=_check_block,
        repaired=refine_cell_by_cell,
    ),
    Claim(
        "Fig7b",
        "SL26",
        "Figure 7, caption",
        "figure",
        "The feed-forward layer shatters each cell of the attention into finer regions.",
        content=lambda d_ff: 2,
        check=_check_shattering,
        repaired=lambda d_ff: 1,
    ),
    Claim(
        "AppE.5",
        "SL26",
        "Appendix E, before the recurrence",
        "proof step",
        "A common refinement has at most as many cells as the product of the two numbers of cells.",
        content=lambda first, second: first * second,
        check=_check_refinement_product,
        corrupted=lambda first, second: first + second,
    ),
    Claim(
        "AppE.6",
        "SL26",
        "Appendix E, recurrence relation",
        "proof step",
        "The map of the first l layers is continuous and piecewise linear.",
        content=lambda spread: 0.0,
        check=_check_continuity,
        repaired=lambda spread: spread,
    ),
    Claim(
        "AppE.7",
        "SL26",
        "Appendix E, recurrence relation",
        "proof step",
        "The count multiplies with depth: the number of maximal linear regions after l + 1 layers "
        "is at most the number after l layers times the number of layer l + 1.",
        content=lambda part: part.n_regions,
        check=_check_recurrence,
        repaired=lambda part: part.n_cells,
    ),
)
