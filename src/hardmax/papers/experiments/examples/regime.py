"""Example VI.2 of [SL26]: the margins that softmax needs at the scaling of transformers."""

from dataclasses import asdict, dataclass

import numpy as np

from hardmax.papers.experiments.wording import set_plain_ticks
from hardmax.papers.registry import Outcome, Row
from hardmax.plotting.style import create_row, theme_colour
from hardmax.stability.score_bounds import rival_mass_bound
from hardmax.stability.tables import stability_table


@dataclass(frozen=True)
class Parameters:
    """The setting of the example."""

    n_keys: int = 512
    margin: float = 2.0
    d_k: int = 64
    epsilon: float = 0.01


def run(parameters: Parameters) -> Outcome:
    """Evaluate every bound at the temperature of the example and at the correct one."""
    p = parameters
    table = stability_table(p.n_keys, p.margin, p.d_k, epsilon=p.epsilon)
    rows: list[Row] = [asdict(column) for column in table.columns]
    claimed, raw, scaled = table.columns[0], table.columns[2], table.columns[3]
    figure, (ax,) = create_row(1)
    margins = np.geomspace(0.1, 300.0, 400)
    readings = (
        (claimed, f"$\\tau = {claimed.tau:g}$, as claimed"),
        (scaled, f"$\\tau = {scaled.tau:g}$, on scaled scores"),
        (raw, f"$\\tau = {raw.tau:g}$, on raw scores"),
    )
    for (column, label), style in zip(readings, ("-", "--", "-."), strict=True):
        masses = np.array([float(rival_mass_bound(p.n_keys, m, column.tau)) for m in margins])
        (line,) = ax.loglog(margins, masses, style, label=label)
        there = float(rival_mass_bound(p.n_keys, p.margin, column.tau))
        ax.plot([p.margin], [there], "o", color=line.get_color(), ms=5, zorder=3)
    ax.axvline(
        p.margin, color=theme_colour("ink"), linewidth=0.8, ls=":", label=f"margin {p.margin:g}"
    )
    ax.axhline(
        p.epsilon,
        color=theme_colour("soft"),
        linewidth=0.8,
        ls=":",
        label=f"{p.epsilon:.0%} of the weight",
    )
    ax.set_ylim(1e-6, 2.0)
    set_plain_ticks(ax.xaxis)
    ax.set_xlabel(r"margin $\delta$")
    ax.set_ylabel("largest weight of the other keys")
    figure.legend(loc="outside lower center", ncols=2)
    return Outcome(
        {
            "tau_claimed": claimed.tau,
            "tau_of_raw_scores": raw.tau,
            "rival_mass_claimed": claimed.rival_mass,
            "rival_mass_raw": raw.rival_mass,
            "rival_mass_scaled": scaled.rival_mass,
            "margin_needed_scaled": scaled.margin_needed,
            "margin_needed_raw": raw.margin_needed,
        },
        f"softmax(q k / sqrt(d_k)) on raw scores has the temperature sqrt({p.d_k}) = {raw.tau:g}, "
        f"not {claimed.tau:g}. At this temperature, a margin of {p.margin:g} leaves the other "
        f"keys up to {raw.rival_mass:.1%} of the weight ({scaled.rival_mass:.1%} if the margin "
        f"refers to scaled scores). To leave them at most {p.epsilon:.0%}, the margin must be "
        f"{scaled.margin_needed:.2f} on scaled scores or {raw.margin_needed:.1f} on raw scores.",
        figure,
        claimed=(
            f"At d_k = {p.d_k}, N = {p.n_keys} and margin {p.margin:g}, the winner has more than "
            f"99.98% of the weight, with temperature {claimed.tau:g}."
        ),
        claims=("VI.2",),
        tables={"bounds": rows},
    )
