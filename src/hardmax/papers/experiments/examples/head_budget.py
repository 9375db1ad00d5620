r"""Example V.3 of [SL26]: the cells of equal parameter budgets with one head and with many."""

from dataclasses import dataclass
from math import log10

import numpy as np

from hardmax.bounds import attention_cells
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.papers.experiments.wording import join_numbers
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import create_row


@dataclass(frozen=True)
class Parameters:
    """The setting of the example, the claimed number, and a small case that is counted."""

    n_keys: int = 512
    dim: int = 512
    n_heads: int = 8
    claimed_power: float = 1.1e21
    small_keys: int = 5
    small_heads: tuple[int, ...] = (1, 2, 3)


def run(parameters: Parameters) -> Outcome:
    """Recompute the number, count the small case, and draw the bound for every number of heads."""
    n, dim, n_heads = parameters.n_keys, parameters.dim, parameters.n_heads
    power = n**n_heads
    budget = [(h, dim // h) for h in (2**i for i in range(dim.bit_length())) if dim % h == 0]
    rows: list[Row] = [
        {
            "heads": h,
            "head_dim": size,
            "parameters": 3 * dim * size * h + dim**2,
            "log10_cells": log10(attention_cells(n, h, dim, head_dim=size, bias="none")),
        }
        for h, size in budget
    ]
    small = [_build_independent_heads(parameters.small_keys, h) for h in parameters.small_heads]
    figure, (ax,) = create_row(1)
    ax.semilogx([r["heads"] for r in rows], [r["log10_cells"] for r in rows], "o-", base=2)
    ax.plot([n_heads], [log10(power)], "s", color="C1", label=f"$512^8$, H = {n_heads}")
    ax.set_xlabel("heads $H$, with $d_k = d / H$")
    ax.set_ylabel(r"$\log_{10}$ of the largest number of cells of a layer")
    ax.legend()
    return Outcome(
        {"cells": power, "claimed_cells": parameters.claimed_power, "small_counts": small},
        f"{n}^{n_heads} is {power:.3g}, not {parameters.claimed_power:.2g}. The product is "
        f"attained if the heads read independent subspaces: {parameters.small_keys} keys and H = "
        f"{join_numbers(parameters.small_heads)} give {join_numbers(small)} cells. With one "
        "coordinate per head, a head has at most 2 cells, and more heads bring no further gain.",
        figure,
        claimed=(
            f"Eight heads raise 512 cells to {parameters.claimed_power:.2g} with the same number "
            "of parameters."
        ),
        claims=("V.3",),
        tables={"budget": rows},
    )


def _build_independent_heads(n_keys: int, n_heads: int) -> int:
    """Count the joint cells of heads that each read two coordinates of their own."""
    # Points on a parabola: every key is a vertex.
    t = np.arange(n_keys, dtype=np.float64)
    heads = []
    for h in range(n_heads):
        keys = np.zeros((n_keys, 2 * n_heads))
        keys[:, 2 * h], keys[:, 2 * h + 1] = t, t**2
        heads.append(keys)
    return minkowski_vertices(heads).count
