r"""The power of the number of keys with which the largest number of regions grows.

The abstract, the introduction, Corollary V.9 and the conclusion of [SL26] state $N^{dL}$. Here the
counts for several $N$ are values of polynomials in $N$, the degrees of which are computed exactly.
The counts themselves are compared with their formulas, so that a wrong count of the right degree
does not pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from hardmax.bounds import attention_cells, exponent_of_keys, transformer_upper
from hardmax.bounds.sizes import Bias
from hardmax.constructions.families.self_attention import collapsing_self_attention
from hardmax.constructions.families.shattering import (
    bias_free_shattering_transformer,
    shattering_count,
    shattering_transformer,
)
from hardmax.exact.forms import AffineForms
from hardmax.geometry.refinement import common_refinement
from hardmax.papers.claims import Finding, Trial, equal_trial
from hardmax.papers.subjects.counting.cubes import unit_cube, upper_edge
from hardmax.papers.subjects.counting.growth import polynomial_degree
from hardmax.papers.subjects.counting.polytope_sums import extremal_cells
from hardmax.regions.engines import enumerate_regions


@dataclass(frozen=True)
class Setting:
    """The sizes on which the exponent of N depends.

    Attributes:
        n_heads: The number of heads H.
        dim: The model dimension d.
        depth: The number of blocks L.
        bias: The kind of bias of the heads.
        head_dim: The head size.
        memory_stays: Whether every block has the same keys and values.
    """

    n_heads: int
    dim: int
    depth: int
    bias: Bias = "none"
    head_dim: int = 2
    memory_stays: bool = True

    def __str__(self) -> str:
        words = f"H = {self.n_heads}, d = {self.dim}, L = {self.depth}"
        words += f", head size {self.head_dim}" * (self.head_dim != 2)
        return words + ", context tokens updated" * (not self.memory_stays)


Exponent = Callable[[Setting], int]


def claimed_exponent(setting: Setting) -> int:
    """Return the exponent of N stated in [SL26], regardless of the heads and their bias."""
    return setting.dim * setting.depth


def true_exponent(setting: Setting) -> int:
    """Return the exponent that is attained and not exceeded."""
    layers = setting.depth if setting.memory_stays else 1
    return exponent_of_keys(
        setting.n_heads, setting.dim, layers, bias=setting.bias, head_dim=setting.head_dim
    )


def _count_one_layer(setting: Setting, n_keys: int) -> int:
    """Count the routing cells of extremal heads, exactly."""
    n_heads, dim = setting.n_heads, setting.dim
    if setting.head_dim > 1:
        return extremal_cells(n_keys, n_heads, dim, setting.bias)
    # Queries x_h - 1/2, and keys 0, 1, ... without logit bias.
    keys, axes = np.arange(float(n_keys)), np.eye(dim)
    forms = [AffineForms(np.outer(keys, axes[h % dim]), -0.5 * keys) for h in range(n_heads)]
    return common_refinement(forms).count


@cache
def _count_construction(setting: Setting, n_keys: int) -> int:
    """Count the regions of a transformer that is constructed."""
    n_heads, dim, depth = setting.n_heads, setting.dim, setting.depth
    if not setting.memory_stays:
        tokens = collapsing_self_attention(n_keys, dim, depth, 2 * dim)
        return int(enumerate_regions(tokens, unit_cube(dim)).n_regions)
    if setting.bias == "none":  # in the plane, on the slice where the second coordinate is 1
        model = bias_free_shattering_transformer(n_keys, dim, depth, 2, n_heads)
        return int(enumerate_regions(model, upper_edge()).n_regions)
    model = shattering_transformer(n_keys, dim, depth, 2 * dim, n_heads, integer_weights=True)
    return int(enumerate_regions(model, unit_cube(dim)).n_regions)


def _layer_trials(setting: Setting, exponent: Exponent, condition: bool) -> list[Trial]:
    keys = range(2, 3 + setting.dim + 2)
    counts = [_count_one_layer(setting, n) for n in keys]
    sizes = (setting.n_heads, setting.dim)
    most = [attention_cells(n, *sizes, bias=setting.bias, head_dim=setting.head_dim) for n in keys]
    degree = polynomial_degree(counts)
    return [
        equal_trial(str(setting), degree, exponent(setting), condition=condition, counts=counts),
        equal_trial(f"{setting}: the counts, and no layer has more", counts, most),
    ]


def check_without_bias(exponent: Exponent, saturated: bool) -> Finding:
    """Compute exponents in the model of the paper; `saturated` leaves out H < d."""
    settings = [Setting(h, d, 1) for h, d in ((2, 3), (2, 2), (3, 2), (3, 3))]
    trials = [
        trial
        for setting in settings
        if setting.n_heads >= setting.dim or not saturated
        for trial in _layer_trials(setting, exponent, True)
    ]
    deep, keys = Setting(2, 2, 2), range(2, 7)
    below = polynomial_degree([_count_construction(deep, n) for n in keys])
    above = polynomial_degree([transformer_upper(n, 2, 2, 2, 2, bias="none") for n in keys])
    assert below == above  # attained on a slice and not exceeded by any model: this is the exponent
    trials.append(equal_trial(str(deep), below, exponent(deep)))
    return Finding(
        tuple(trials),
        f"Exponents of N without bias, computed from exact counts: {_format_exponents(trials)}. "
        "All walls pass through the origin, which costs one power of N in every layer.",
        "L min(H, d - 1) in the model of the paper, which has no query bias.",
    )


def check_with_bias(exponent: Exponent, saturated: bool) -> Finding:
    """Compute exponents for heads with a query bias; `saturated` leaves out H < d."""
    trials: list[Trial] = []
    for h, d in ((1, 2), (2, 2), (3, 2), (3, 3)):
        if h >= d or not saturated:
            trials += _layer_trials(Setting(h, d, 1, "query"), exponent, h >= d)
    for h, d, depth in ((1, 1, 1), (1, 1, 2), (2, 2, 1)):
        setting, keys = Setting(h, d, depth, "query"), range(2, 7)
        counts = [_count_construction(setting, n) for n in keys]
        formula = [shattering_count(n, d, depth, 2 * d, h) for n in keys]
        degree = polynomial_degree(counts)
        name = f"{setting}, feed-forward parts included"
        trials.append(equal_trial(name, degree, exponent(setting), counts=counts))
        trials.append(equal_trial(f"{name}: the counts", counts, formula))
    trials += _layer_trials(Setting(1, 1, 1, "query", head_dim=1), exponent, False)
    moving = Setting(1, 1, 2, "query", memory_stays=False)
    degree = polynomial_degree([_count_construction(moving, n) for n in range(2, 7)])
    trials.append(equal_trial(str(moving), degree, exponent(moving), condition=False))
    fewer = "" if saturated else ", H >= d"
    return Finding(
        tuple(trials),
        "Exponents of N with a query bias, computed from exact counts: "
        f"{_format_exponents(trials)}.",
        f"N^(dL) with a query bias, head size at least 2{fewer}, d_ff >= 2d and a fixed memory. "
        "In general the exponent is L min(H, d); it is 0 for heads of size 1, and at most the "
        "exponent of one layer if the context passes through the same blocks.",
    )


def check_standard_size(exponent: Exponent) -> Finding:
    """Compute exponents for heads of size d/H, with a query bias."""
    trials: list[Trial] = []
    for dim, n_heads in ((2, 1), (2, 2), (4, 1), (4, 2), (4, 4)):
        setting = Setting(n_heads, dim, 1, "query", head_dim=dim // n_heads)
        trials += _layer_trials(setting, exponent, True)
        half = Trial(
            f"{setting}: at most d L / 2",
            2 * exponent(setting) <= dim,
            numbers={"claimed": exponent(setting)},
        )
        trials.append(half)
    return Finding(
        tuple(trials),
        "Exponents of N with a query bias and the head size d/H of Example V.3: "
        f"{_format_exponents(trials)}. The H = d heads that Theorem V.7 requires then have size "
        "1, and at most two keys of such a head ever win.",
        "H L, which is at most d L / 2, for head size d/H >= 2; and 0 for H = d.",
    )


def _format_exponents(trials: list[Trial]) -> str:
    return "; ".join(
        f"{trial.numbers['true']} ({trial.instance})"
        for trial in trials
        if isinstance(trial.numbers.get("true"), int)
    )
