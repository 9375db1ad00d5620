"""Write a survey of heads to files: a table in CSV and Parquet, and a self-contained page."""

import csv
import io
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.extras import load_extra
from hardmax._ground.files import atomic_write, make_folder, write_text
from hardmax.models.checkpoints.hardening import JointEffect
from hardmax.papers.pages import format_table, page
from hardmax.regions.partition import Partition
from hardmax.surveys.head_slices import HeadSlice, query_slice
from hardmax.surveys.head_surveys import HeadSurvey
from hardmax.typing import FloatArray

_DRAWN = 3
"""The number of most tropical heads drawn, and of least tropical ones."""
_SIZE = 320
_LABELLED = 0.02
"""The smallest share of the window at which a cell is labelled."""
_HUES = 11
_MOST_DRAWN = 6000
"""The largest number of cells of a plane that is drawn."""

# Column, heading, explanation, and whether it is certified. Each map is shown next to its null.
_MAPS = (
    (
        "distance",
        "Distance from hard routing",
        "Median over tokens of a proven bound on the distance between the head's output and the "
        "value of the winning key, relative to the largest possible distance. 0 means hard "
        "attention.",
        True,
    ),
    (
        "margin",
        "Margin",
        "Median of the largest score minus the next, in units of the model's own temperature.",
        False,
    ),
    ("mass", "Weight of the winner", "Median of the largest attention weight.", False),
    (
        "sharp_share",
        "Tokens with a clear winner",
        "Share of tokens whose winner provably has an attention weight above 0.9.",
        True,
    ),
    (
        "sink_share",
        "Attention sink",
        "Share of tokens for which the first key wins. The winner is determined exactly.",
        True,
    ),
    (
        "margin_without_sink",
        "Margin without the sink",
        "Median margin over the tokens for which the first key does not win; empty if there are "
        "none.",
        False,
    ),
    (
        "change",
        "Effect of making the head hard",
        "Relative change of the model's output if only this head attends only to its best key.",
        False,
    ),
)


def write_survey(survey: HeadSurvey, out: Path, title: str = "") -> Path:
    """Write `heads.csv`, `heads.parquet` and `heads.html` to a folder.

    Without pyarrow, no Parquet file is written.

    Args:
        survey: The survey.
        out: The folder; it is created if it does not exist.
        title: The title of the page. The default is a description of the model.

    Returns:
        The path of the page.

    Examples:
        >>> import tempfile
        >>> from hardmax import load_checkpoint
        >>> from hardmax.surveys import survey_heads
        >>> survey = survey_heads(load_checkpoint("hardmax"), [2, 0, 1], with_effects=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_survey(survey, Path(folder)).name
        'heads.html'
    """
    make_folder(out)
    rows = survey.table
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(out / "heads.csv", text.getvalue())
    try:
        pa = load_extra("pyarrow", extra="arrow", purpose="Parquet files")
        parquet = load_extra("pyarrow.parquet", extra="arrow", purpose="Parquet files")
    except ImportError:
        (out / "heads.parquet").unlink(missing_ok=True)
    else:
        with atomic_write(out / "heads.parquet") as stream:
            parquet.write_table(pa.Table.from_pylist(rows), stream)
    write_text(out / "heads.html", survey_page(survey, title or survey.model))
    return out / "heads.html"


def survey_page(survey: HeadSurvey, title: str) -> str:
    """Return the page of a survey as HTML."""
    style = files("hardmax.surveys").joinpath("heads.css").read_text(encoding="utf-8")
    body = [
        f"<header><h1>{escape(title)}</h1>{_summary_html(survey)}</header>",
        _evidence_html(survey),
        "<h2>Every head</h2>",
        '<p class="small">Rows are layers, and columns are heads. The second map of each pair, on '
        "the same scale, shows the result for Gaussian queries with the mean and covariance of the "
        "real queries, and the same keys. Only a difference between the two maps is a property of "
        "the model's queries.</p>",
        *(_map_pair_html(survey, *entry) for entry in _MAPS if entry[0] in survey.table[0]),
        _winners_html(survey),
        _hardening_html(survey.together),
        _diagrams_html(survey),
        _token_paths_html(survey),
        "<h2>All numbers</h2>",
        _full_table_html(survey),
    ]
    return page(title, "\n".join(body), style)


def _summary_html(survey: HeadSurvey) -> str:
    pooled = survey.pooled
    model = survey.model.removeprefix("TransformerWeights(").removesuffix(")")
    listed = escape(", ".join(survey.assumed))
    assumed = (
        f'<p class="small">Assumed, because the files lack it: {listed}.</p>' if listed else ""
    )
    shown = " ".join(f"<span>{escape(word) or '&nbsp;'}</span>" for word in survey.words)
    return (
        f'<p class="lead">{escape(model)}: {len(survey.summaries)} heads on a sequence of '
        f"{len(survey.words)} tokens. Over all tokens of all heads, the median margin is "
        f"{pooled['margin']:.2f} temperatures, and the winner's median attention weight is "
        f"{pooled['mass']:.2f}. Gaussian queries give {pooled['margin_null']:.2f} and "
        f"{pooled['mass_null']:.2f}.</p>{assumed}"
        f'<details class="text"><summary>the tokens</summary><p>{shown}</p></details>'
    )


def _evidence_html(survey: HeadSurvey) -> str:
    d_k = survey.layers[0].keys.shape[2]
    real = np.mean([found.n_extreme / found.n_keys for found in survey.summaries])
    null = np.mean([found.n_extreme_null / found.n_keys for found in survey.summaries])
    vacuous = (
        f"In {d_k} dimensions, this number says little about the model, because about as many "
        "Gaussian keys can win."
        if abs(real - null) < 0.05
        else "The difference from Gaussian keys is a property of the model."
    )
    return (
        '<div class="pair"><div><h4>Certified</h4><p>The winning key of each token, the rank of '
        "the keys, and the keys that can win for some query are exact for the float64 numbers that "
        "the forward pass stored. The distance from hard routing and the share of tokens with a "
        f"clear winner are bounds, rounded outward. {real:.0%} of the keys can win for some query, "
        f"compared with {null:.0%} of Gaussian keys. {vacuous}</p></div>"
        "<div><h4>Measured</h4><p>The forward pass, margins, weights, and the effect of making "
        "heads hard on the output are computed in floats and hold for this sequence only. The unit "
        "of margins is the temperature at which the model was trained.</p></div></div>"
    )


def _map_pair_html(survey: HeadSurvey, name: str, heading: str, said: str, certified: bool) -> str:
    real, null = (_arrange_by_head(survey, f"{name}{kind}") for kind in ("", "_null"))
    known = np.concatenate([real.ravel(), null.ravel()])
    known = known[~np.isnan(known)]
    # Outliers share the darkest colour; otherwise all other heads would be pale.
    top = float(np.quantile(known, 0.98) or known.max()) if len(known) else 0.0
    kind = "certified" if certified else "measured"
    return (
        f'<section><h3>{escape(heading)} <span class="kind">{kind}</span></h3>'
        f'<p class="small">{escape(said)}</p><div class="maps">'
        f"{_heat_map_html(real, top, 'the model')}{_heat_map_html(null, top, 'Gaussian queries')}"
        "</div></section>"
    )


def _arrange_by_head(survey: HeadSurvey, column: str) -> FloatArray:
    """Return a column of the table as an array by layer and head, nan where there is no head."""
    n_heads = max(layer.n_heads for layer in survey.layers)
    grid = np.full((len(survey.layers), n_heads), np.nan)
    for row in survey.table:
        value = row[column]
        grid[row["layer"], row["head"]] = np.nan if value is None else value
    return grid


def _heat_map_html(grid: FloatArray, top: float, caption: str) -> str:
    head = "".join(f"<th>{h}</th>" for h in range(grid.shape[1]))
    rows = "".join(
        f"<tr><th>{layer}</th>{''.join(_heat_cell(value, top) for value in row)}</tr>"
        for layer, row in enumerate(grid.tolist())
    )
    known = grid[~np.isnan(grid)]
    middle = f", median {np.median(known):.3g}" if len(known) else ""
    return (
        f'<figure class="heat"><div class="table"><table><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div><figcaption>{escape(caption)}{middle}"
        "</figcaption></figure>"
    )


def _heat_cell(value: float, top: float) -> str:
    if np.isnan(value):
        return "<td></td>"
    share = min(max(value, 0.0) / (top or 1.0), 1.0)
    return f'<td style="--v:{100 * share:.0f}%">{_format_short(value)}</td>'


def _format_short(value: float) -> str:
    """Format a number briefly: `.82`, `1.05`, `12`."""
    if abs(value) >= 10.0:
        return f"{value:.0f}"
    text = f"{value:.2f}"
    return text.replace("0.", ".", 1) if abs(value) < 1.0 else text


def _winners_html(survey: HeadSurvey) -> str:
    ranks = sorted({found.key_rank for found in survey.summaries})
    d_k = survey.layers[0].keys.shape[2]
    full = f"always {ranks[0]}" if len(ranks) == 1 else f"from {ranks[0]} to {ranks[-1]}"
    sink = np.mean([found.sink_share for found in survey.summaries])
    ahead = sorted(survey.summaries, key=lambda found: found.margin_null - found.margin)[:3]
    beyond = "; ".join(
        f"layer {one.layer}, head {one.head} ({one.margin:.2f} against {one.margin_null:.2f})"
        for one in ahead
    )
    return (
        '<p class="small">'
        f"The rank of the keys is {full} (the head size is {d_k}). The first key wins for "
        f"{sink:.0%} of all tokens of all heads. The margins with the largest excess over Gaussian "
        f"queries: {beyond}.</p>"
    )


def _hardening_html(together: Sequence[JointEffect]) -> str:
    if not together:
        return ""
    has_next = together[0].agreement is not None
    columns = ["heads made hard", "change", "random heads", "cosine", "random heads"]
    columns += ["same next token", "random heads"] * has_next
    rows = []
    for found in together:
        row: list[Any] = [found.n_heads, found.change, found.change_random]
        row += [found.cosine, found.cosine_random]
        row += [found.agreement, found.agreement_random] * has_next
        rows.append(row)
    return (
        '<h2>Several heads made hard <span class="kind">measured</span></h2>'
        '<p class="small">The sharpest heads, which have the largest median weight, attend only to '
        "their best keys, all at the same time. For comparison, the same number of heads is drawn "
        "at random. Change: the relative change of the whole output. Cosine: the cosine between "
        "the mean outputs over the tokens.</p>"
        f"{format_table(columns, rows)}"
    )


def _diagrams_html(survey: HeadSurvey) -> str:
    order = sorted(survey.summaries, key=lambda found: found.distance)
    count = min(_DRAWN, (len(order) + 1) // 2)
    least = [found for found in order[::-1][:count] if found not in order[:count]]
    parts = []
    for heading, chosen in (
        ("The most tropical heads", order[:count]),
        ("The least tropical heads", least),
    ):
        drawn = []
        for found in chosen:
            cut = query_slice(survey.layers[found.layer], found.head)
            said = (
                f"layer {found.layer}, head {found.head}: distance {found.distance:.2f} (Gaussian "
                f"{found.distance_null:.2f}), weight {found.mass:.2f}, {len(cut.keys)} cells in "
                "view"
            )
            drawn.append(
                f'<figure class="cut">{draw_slice(cut, survey.words)}'
                f"<figcaption>{escape(said)}</figcaption></figure>"
            )
        if drawn:
            parts.append(f'<h3>{heading}</h3><div class="cuts">{"".join(drawn)}</div>')
    is_plane = survey.layers[0].keys.shape[2] == 2
    where = (
        "The head size is 2, so each picture shows the whole query space."
        if is_plane
        else "Each picture shows a plane in query space through three queries, marked with rings. "
        "Dots are the orthogonal projections of the other queries, so a different key may win for "
        "them than the label of the cell says."
    )
    return (
        '<h2>Power diagrams of real keys <span class="kind">exact</span></h2>'
        f'<p class="small">{where} Each cell is labelled with the token whose key wins there; the '
        "keys are those that the last token sees. The mixture that softmax computes at the model's "
        f"temperature is not drawn.</p>{''.join(parts)}"
    )


def _token_paths_html(survey: HeadSurvey) -> str:
    if not survey.slices:
        return ""
    parts = []
    for found in survey.slices:
        a, b, c = (escape(survey.words[token]) for token in found.tokens)
        what = "All layers" if found.is_whole else "The heads of the first layer"
        kept = (
            "All heads are hard, the keys and values of the sequence are fixed, and <strong>each "
            "norm divides by its value at the starting point</strong>. At the ends of the path, "
            f"this changes the output by at most {found.drift:.0%} (measured). Farther away, the "
            "result does not describe the model."
            if found.is_whole
            else "The vector that moves is the input of these heads; the keys of the sequence are "
            "fixed."
        )
        far = f"{found.reach:.3g} of the way" if found.reach < 1.0 else "all the way"
        picture = _draw_plane(found.plane)
        drawn = f'<figure class="cut">{picture}</figure>' if picture else ""
        parts.append(
            f"<h3>{what}</h3><p>Moving <code>{a}</code> in a straight line {far} to "
            f"<code>{b}</code> meets {found.path.n_cells} cells. The parallelogram around "
            f"<code>{a}</code> that extends equally far towards and away from <code>{b}</code> and "
            f"<code>{c}</code> contains {found.plane.n_cells}. {kept}</p>{drawn}"
        )
    return (
        '<h2>Cells along the path of one token <span class="kind">exact</span></h2>'
        '<p class="small">One token moves, and the others stay fixed. In a cell, the winning key '
        "of every head and the side of every unit do not change.</p>" + "".join(parts)
    )


def _draw_plane(part: Partition) -> str:
    """Return a picture of the cells of a plane if there are few; colours repeat without meaning."""
    cells = part.cells
    if cells.vertices is None or cells.starts is None or part.n_found > _MOST_DRAWN:
        return ""
    low, high = cells.vertices.min(axis=0), cells.vertices.max(axis=0)
    corners = _to_picture(cells.vertices, low, high - low)
    polygons = "".join(
        f'<polygon class="c{i % _HUES}" points="'
        + " ".join(f"{x:.1f},{y:.1f}" for x, y in corners[begin:end].tolist())
        + '"/>'
        for i, (begin, end) in enumerate(pairwise(cells.starts.tolist()))
    )
    return f'<svg class="fine" viewBox="0 0 {_SIZE} {_SIZE}" role="img">{polygons}</svg>'


def _to_picture(points: FloatArray, low: FloatArray, extent: FloatArray) -> FloatArray:
    """Convert points of a window to points of a picture, whose second axis points down."""
    unit = (points - low) / extent
    return np.column_stack([unit[:, 0], 1.0 - unit[:, 1]]) * _SIZE


def draw_slice(cut: HeadSlice, words: Sequence[str]) -> str:
    """Return a slice as SVG: its cells, labelled with the tokens of the keys, and the queries."""
    low = np.asarray(cut.window.low)
    extent = np.asarray(cut.window.high) - low

    cells, labels = [], []
    for key, polygon in zip(cut.keys, cut.polygons, strict=True):
        corners = _to_picture(polygon, low, extent)
        listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        word = escape(words[key])
        cells.append(
            f'<polygon class="c{key % _HUES}" points="{listed}"><title>{word}</title></polygon>'
        )
        area, centre = _centroid(corners)
        if area > _LABELLED * _SIZE**2:
            said = word if any(c.isalnum() for c in words[key]) else f"&ldquo;{word}&rdquo;"
            labels.append(f'<text x="{centre[0]:.1f}" y="{centre[1]:.1f}">{said}</text>')
    shadows = _to_picture(cut.queries, low, extent)
    dots = [
        f'<circle class="{"ring" if i in cut.tokens else "dot"}" cx="{x:.1f}" cy="{y:.1f}" '
        f'r="{5 if i in cut.tokens else 2}"><title>{escape(words[i])}</title></circle>'
        for i, (x, y) in enumerate(shadows.tolist())
        if 0.0 <= min(x, y) <= max(x, y) <= _SIZE
    ]
    return (
        f'<svg viewBox="0 0 {_SIZE} {_SIZE}" role="img">{"".join(cells)}{"".join(dots)}'
        f"{''.join(labels)}</svg>"
    )


def _centroid(corners: FloatArray) -> tuple[float, FloatArray]:
    """Return the area and the centroid of a convex polygon."""
    first = corners[0]
    one, other = corners[1:-1] - first, corners[2:] - first
    areas = np.abs(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]) / 2
    total = float(areas.sum())
    if not total:
        return 0.0, first
    return total, first + (areas[:, None] * (one + other) / 3).sum(axis=0) / total


def _full_table_html(survey: HeadSurvey) -> str:
    rows = survey.table
    columns = [name.replace("_null", " (Gaussian)") for name in rows[0]]
    table = format_table(columns, [list(row.values()) for row in rows], most=len(rows))
    return (
        f"<details><summary>{len(rows)} heads (also in heads.csv and heads.parquet)</summary>"
        f"{table}</details>"
    )
