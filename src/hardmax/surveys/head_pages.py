"""A survey of heads as files: a table in CSV and Parquet, and a page that needs no other file."""

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
from hardmax._ground.files import make_folder, replacing, write_text
from hardmax.models.checkpoints.hardening import JointEffect
from hardmax.papers.pages import data_table, page
from hardmax.regions.partition import Partition
from hardmax.surveys.head_slices import HeadSlice, query_slice
from hardmax.surveys.head_surveys import HeadSurvey
from hardmax.typing import FloatArray

_DRAWN = 3
"""How many of the most and of the least tropical heads are drawn."""
_SIZE = 320
_LABELLED = 0.02
"""Cells that take a larger share of the window are labelled."""
_HUES = 11
_MOST_DRAWN = 6000
"""Planes with more cells are counted and not drawn."""

# Column, heading, what it says, and whether it is certified; its null stands beside it.
_MAPS = (
    (
        "distance",
        "Distance from hard routing",
        "Median over tokens of a proved bound: how far the head's output is from the value of the "
        "winning key, as a share of the largest such distance. 0 is hard attention.",
        True,
    ),
    (
        "margin",
        "Margin",
        "Median lead of the best key over the next, in units of the model's own temperature.",
        False,
    ),
    ("mass", "Weight of the winner", "Median of the largest attention weight.", False),
    (
        "sharp_share",
        "Tokens with a clear winner",
        "Share of tokens whose winner certainly has more than 0.9 of the weight.",
        True,
    ),
    (
        "sink_share",
        "Attention sink",
        "Share of tokens won by the first key; which key wins is decided exactly.",
        True,
    ),
    (
        "margin_without_sink",
        "Margin without the sink",
        "Median margin over the tokens that the first key does not win; empty where it wins all.",
        False,
    ),
    (
        "change",
        "Effect of making the head hard",
        "Relative change of the model's output when this head alone attends to its best key only.",
        False,
    ),
)


def write_survey(survey: HeadSurvey, out: Path, title: str = "") -> Path:
    """Write `heads.csv`, `heads.parquet` and `heads.html` to a folder.

    Where pyarrow is not installed there is no Parquet file.

    Args:
        survey: What was found.
        out: The folder, which is made if it is not there.
        title: What the page is about; the model in a line if empty.

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
        with replacing(out / "heads.parquet") as stream:
            parquet.write_table(pa.Table.from_pylist(rows), stream)
    write_text(out / "heads.html", survey_page(survey, title or survey.model))
    return out / "heads.html"


def survey_page(survey: HeadSurvey, title: str) -> str:
    """Return the page as text."""
    style = files("hardmax.surveys").joinpath("heads.css").read_text(encoding="utf-8")
    body = [
        f"<header><h1>{escape(title)}</h1>{_lead(survey)}</header>",
        _certified_and_measured(survey),
        "<h2>Every head</h2>",
        '<p class="small">Rows are layers, columns are heads. Beside each, on the same scale, '
        "what Gaussian queries with the mean and covariance of the real ones give for the same "
        "keys: only a difference between the two is a property of what the model asks.</p>",
        *(_map_pair(survey, *entry) for entry in _MAPS if entry[0] in survey.table[0]),
        _winners(survey),
        _hardening(survey.together),
        _drawings(survey),
        _ways(survey),
        "<h2>All numbers</h2>",
        _whole_table(survey),
    ]
    return page(title, "\n".join(body), style)


def _lead(survey: HeadSurvey) -> str:
    pooled = survey.pooled
    model = survey.model.removeprefix("TransformerWeights(").removesuffix(")")
    listed = escape(", ".join(survey.assumed))
    assumed = f'<p class="small">Assumed, as the files do not say: {listed}.</p>' if listed else ""
    shown = " ".join(f"<span>{escape(word) or '&nbsp;'}</span>" for word in survey.words)
    return (
        f'<p class="lead">{escape(model)}: {len(survey.summaries)} heads on a sequence of '
        f"{len(survey.words)} tokens. Over all tokens of all heads the best key leads the next by "
        f"{pooled['margin']:.2f} temperatures and has {pooled['mass']:.2f} of the weight "
        f"(medians); Gaussian queries give {pooled['margin_null']:.2f} and "
        f"{pooled['mass_null']:.2f}.</p>{assumed}"
        f'<details class="text"><summary>the tokens</summary><p>{shown}</p></details>'
    )


def _certified_and_measured(survey: HeadSurvey) -> str:
    d_k = survey.layers[0].keys.shape[2]
    real = np.mean([found.n_extreme / found.n_keys for found in survey.summaries])
    null = np.mean([found.n_extreme_null / found.n_keys for found in survey.summaries])
    vacuous = (
        f"In {d_k} dimensions this says nothing about the model: Gaussian keys do the same."
        if abs(real - null) < 0.05
        else "Gaussian keys differ, so this says something about the model."
    )
    return (
        '<div class="pair"><div><h4>Certified</h4><p>Which key wins for each token, the rank of '
        "the keys, and which keys can win for some query, are exact about the numbers the forward "
        "pass stored in float64. The distance from hard routing and the tokens with a clear winner "
        f"are bounds, rounded outward. {real:.0%} of the keys can win for some query; of Gaussian "
        f"keys {null:.0%}. {vacuous}</p></div>"
        "<div><h4>Measured</h4><p>The forward pass itself, margins, weights, and what happens to "
        "the output when heads are made hard, are computed in floats and hold for this one "
        "sequence. The unit of margins is the temperature the model was trained at.</p></div></div>"
    )


def _map_pair(survey: HeadSurvey, name: str, heading: str, said: str, certified: bool) -> str:
    real, null = (_grid(survey, f"{name}{kind}") for kind in ("", "_null"))
    known = np.concatenate([real.ravel(), null.ravel()])
    known = known[~np.isnan(known)]
    # A few heads far ahead would leave all others pale: they share the deepest colour.
    top = float(np.quantile(known, 0.98) or known.max()) if len(known) else 0.0
    kind = "certified" if certified else "measured"
    return (
        f'<section><h3>{escape(heading)} <span class="kind">{kind}</span></h3>'
        f'<p class="small">{escape(said)}</p><div class="maps">'
        f"{_heat_map(real, top, 'the model')}{_heat_map(null, top, 'Gaussian queries')}"
        "</div></section>"
    )


def _grid(survey: HeadSurvey, column: str) -> FloatArray:
    """A column of the table by layer and head, nan where there is no such head."""
    n_heads = max(layer.n_heads for layer in survey.layers)
    grid = np.full((len(survey.layers), n_heads), np.nan)
    for row in survey.table:
        value = row[column]
        grid[row["layer"], row["head"]] = np.nan if value is None else value
    return grid


def _heat_map(grid: FloatArray, top: float, caption: str) -> str:
    head = "".join(f"<th>{h}</th>" for h in range(grid.shape[1]))
    rows = "".join(
        f"<tr><th>{layer}</th>{''.join(_heat(value, top) for value in row)}</tr>"
        for layer, row in enumerate(grid.tolist())
    )
    known = grid[~np.isnan(grid)]
    middle = f", median {np.median(known):.3g}" if len(known) else ""
    return (
        f'<figure class="heat"><div class="table"><table><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div><figcaption>{escape(caption)}{middle}"
        "</figcaption></figure>"
    )


def _heat(value: float, top: float) -> str:
    if np.isnan(value):
        return "<td></td>"
    share = min(max(value, 0.0) / (top or 1.0), 1.0)
    return f'<td style="--v:{100 * share:.0f}%">{_short(value)}</td>'


def _short(value: float) -> str:
    """Write a number in four places at most: `.82`, `1.05`, `12`."""
    if abs(value) >= 10.0:
        return f"{value:.0f}"
    text = f"{value:.2f}"
    return text.replace("0.", ".", 1) if abs(value) < 1.0 else text


def _winners(survey: HeadSurvey) -> str:
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
        f"The rank of the keys is {full} (the heads have size {d_k}). The first key wins "
        f"{sink:.0%} of all tokens of all heads. The margins farthest above those of Gaussian "
        f"queries: {beyond}.</p>"
    )


def _hardening(together: Sequence[JointEffect]) -> str:
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
        '<p class="small">The sharpest heads, those with the largest median weight, attend to '
        "their best key alone, all at once; beside them as many heads drawn at random. Change: of "
        "the whole output, relative. Cosine: of the mean output over the tokens.</p>"
        f"{data_table(columns, rows)}"
    )


def _drawings(survey: HeadSurvey) -> str:
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
                f'<figure class="cut">{slice_picture(cut, survey.words)}'
                f"<figcaption>{escape(said)}</figcaption></figure>"
            )
        if drawn:
            parts.append(f'<h3>{heading}</h3><div class="cuts">{"".join(drawn)}</div>')
    is_plane = survey.layers[0].keys.shape[2] == 2
    where = (
        "The heads have size 2, so this is all of their space of queries."
        if is_plane
        else "Each picture is a plane in the space of queries, through the three queries marked "
        "with rings; dots are the shadows of the other queries on it, and need not lie in the cell "
        "they fall on."
    )
    return (
        '<h2>Power diagrams of real keys <span class="kind">exact</span></h2>'
        f'<p class="small">{where} A cell is where one key of the sequence wins, labelled with its '
        "token; the keys are those the last token sees. The shares that softmax mixes at the "
        f"model's temperature are not drawn.</p>{''.join(parts)}"
    )


def _ways(survey: HeadSurvey) -> str:
    if not survey.slices:
        return ""
    parts = []
    for found in survey.slices:
        a, b, c = (escape(survey.words[token]) for token in found.tokens)
        what = "All layers" if found.is_whole else "The heads of the first layer"
        kept = (
            "All heads are hard, the keys and values of the sequence are kept, and <strong>each "
            "norm divides by the size it has at the reference</strong>. That changes the output by "
            f"{found.drift:.0%} at most at the ends (measured); farther away it is not the model."
            if found.is_whole
            else "Its vector is what these heads read; the keys of the sequence are kept."
        )
        far = f"{found.reach:.3g} of the way" if found.reach < 1.0 else "all the way"
        picture = _plane_picture(found.plane)
        drawn = f'<figure class="cut">{picture}</figure>' if picture else ""
        parts.append(
            f"<h3>{what}</h3><p><code>{a}</code> moves {far} towards <code>{b}</code>. Cells on "
            f"the path: {found.path.n_cells}; on the plane with <code>{c}</code>, as far to all "
            f"four sides: {found.plane.n_cells}. {kept}</p>{drawn}"
        )
    return (
        '<h2>One token\'s way through the model <span class="kind">exact</span></h2>'
        '<p class="small">One token moves, everything else stays. A cell is where every head keeps '
        "its key, and every unit its side.</p>" + "".join(parts)
    )


def _plane_picture(part: Partition) -> str:
    """Draw the cells of a plane, if they are few; colours repeat and mean nothing."""
    cells = part.cells
    if cells.vertices is None or cells.starts is None or part.n_found > _MOST_DRAWN:
        return ""
    low, high = cells.vertices.min(axis=0), cells.vertices.max(axis=0)
    corners = _placed(cells.vertices, low, high - low)
    polygons = "".join(
        f'<polygon class="c{i % _HUES}" points="'
        + " ".join(f"{x:.1f},{y:.1f}" for x, y in corners[begin:end].tolist())
        + '"/>'
        for i, (begin, end) in enumerate(pairwise(cells.starts.tolist()))
    )
    return f'<svg class="fine" viewBox="0 0 {_SIZE} {_SIZE}" role="img">{polygons}</svg>'


def _placed(points: FloatArray, low: FloatArray, extent: FloatArray) -> FloatArray:
    """Points of a window as points of a picture, whose second axis points down."""
    unit = (points - low) / extent
    return np.column_stack([unit[:, 0], 1.0 - unit[:, 1]]) * _SIZE


def slice_picture(cut: HeadSlice, words: Sequence[str]) -> str:
    """Draw a slice as SVG: cells, tokens of their keys, queries."""
    low = np.asarray(cut.window.low)
    extent = np.asarray(cut.window.high) - low

    cells, labels = [], []
    for key, polygon in zip(cut.keys, cut.polygons, strict=True):
        corners = _placed(polygon, low, extent)
        listed = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        word = escape(words[key])
        cells.append(
            f'<polygon class="c{key % _HUES}" points="{listed}"><title>{word}</title></polygon>'
        )
        area, centre = _centroid(corners)
        if area > _LABELLED * _SIZE**2:
            said = word if any(c.isalnum() for c in words[key]) else f"&ldquo;{word}&rdquo;"
            labels.append(f'<text x="{centre[0]:.1f}" y="{centre[1]:.1f}">{said}</text>')
    shadows = _placed(cut.queries, low, extent)
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
    """Area and centre of a convex polygon."""
    first = corners[0]
    one, other = corners[1:-1] - first, corners[2:] - first
    areas = np.abs(one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]) / 2
    total = float(areas.sum())
    if not total:
        return 0.0, first
    return total, first + (areas[:, None] * (one + other) / 3).sum(axis=0) / total


def _whole_table(survey: HeadSurvey) -> str:
    rows = survey.table
    columns = [name.replace("_null", " (Gaussian)") for name in rows[0]]
    table = data_table(columns, [list(row.values()) for row in rows], most=len(rows))
    return (
        f"<details><summary>{len(rows)} heads, also in heads.csv and heads.parquet</summary>"
        f"{table}</details>"
    )
