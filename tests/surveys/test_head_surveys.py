"""Surveys of heads: the files and the page say what the summaries say, and nothing is loaded."""

import csv
import re

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError
from hardmax.surveys import query_slice, survey_heads, write_survey

WORDS = "shrew|ehrsw"


@pytest.fixture(scope="module")
def survey():
    text = hm.models.tokenise("hardmax", WORDS)
    return survey_heads(hm.load_checkpoint("hardmax"), text.tokens, words=text.words)


def test_the_table_has_every_head_and_every_number(survey, tmp_path):
    write_survey(survey, tmp_path)
    with (tmp_path / "heads.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(int(r["layer"]), int(r["head"])) for r in rows] == [
        (i, h) for i in range(2) for h in range(16)
    ]
    for row, summary, effect in zip(rows, survey.summaries, survey.effects, strict=True):
        assert float(row["margin"]) == summary.margin
        assert float(row["change_null"]) == effect.change_null
    parquet = pytest.importorskip("pyarrow.parquet")
    stored = parquet.read_table(tmp_path / "heads.parquet").to_pylist()
    assert [row["distance"] for row in stored] == [s.distance for s in survey.summaries]


def test_the_page_stands_alone_and_escapes(survey, tmp_path):
    path = write_survey(survey, tmp_path, "a <b> & c")
    page = path.read_text()
    assert "<h1>a &lt;b&gt; &amp; c</h1>" in page
    assert not re.search(r"(?:src|href)=\"(?!#|data:)", page)
    assert "<script" not in page
    assert page.count('<figure class="heat">') == 14
    assert page.count("<svg") == 8
    for said in ("Certified", "Measured", "Gaussian queries", "power diagram"):
        assert said.lower() in page.lower()


def test_a_survey_without_effects_leaves_them_out(tmp_path):
    found = survey_heads(hm.load_checkpoint("hardmax"), [3, 1, 2], with_effects=False)
    assert found.words == ("3", "1", "2")
    assert found.effects == found.together == ()
    assert "Several heads made hard" not in write_survey(found, tmp_path).read_text()
    with pytest.raises(ArgumentError, match="one entry for each of the 2 tokens; got 1"):
        survey_heads(hm.load_checkpoint("hardmax"), [3, 1], words="a")


def test_a_head_whose_first_key_wins_always_leaves_a_place_empty(tmp_path):
    model = hm.load_checkpoint("hardmax")
    found = survey_heads(model, [0, 0], with_effects=False)  # The second token sees two keys.
    page = write_survey(found, tmp_path).read_text()
    empty = [s for s in found.summaries if s.margin_without_sink is None]
    assert empty
    assert page.count("<td></td>") >= len(empty)


def test_one_token_moves_through_the_first_heads_and_through_all_layers(survey):
    first, whole = survey.slices
    assert (first.is_whole, whole.is_whole) == (False, True)
    assert (first.reach, first.drift) == (1.0, 0.0)
    assert first.tokens[0] == whole.tokens[0] == len(WORDS) - 1
    for found in survey.slices:
        assert found.plane.is_complete
        assert 1 < found.path.n_cells < found.plane.n_cells
        assert found.drift <= 0.1
        # The path is the part of the plane from 0 to the first unit vector.
        cells = set(map(tuple, found.plane.signatures.tolist()))
        assert set(map(tuple, found.path.signatures.tolist())) < cells


def test_more_heads_made_hard_end_with_all(survey):
    counts = [found.n_heads for found in survey.together]
    assert counts == sorted(counts)
    assert counts[-1] == 32
    last = survey.together[-1]
    assert last.change == pytest.approx(last.change_random)


@pytest.mark.parametrize("d_k", [1, 2, 3, 16])
@pytest.mark.parametrize("n", [2, 3, 12])
def test_cells_of_a_slice_cover_the_window_and_their_keys_win(d_k, n):
    rng = np.random.default_rng([d_k, n])
    q, k = rng.standard_normal((2, 1, n, d_k))
    cut = query_slice(hm.models.HeadArrays(q, k, k, is_causal=False), 0)
    area = sum(_area(polygon) for polygon in cut.polygons)
    whole = np.prod(cut.window.high - cut.window.low)
    assert area == pytest.approx(whole)
    for key, polygon in zip(cut.keys, cut.polygons, strict=True):
        point = cut.origin + polygon.mean(axis=0) @ cut.directions
        scores = k[0] @ point
        assert scores[key] >= scores.max() - 1e-9
    if d_k > 2 and n > 2:
        at = cut.origin + cut.queries[list(cut.tokens)] @ cut.directions
        np.testing.assert_allclose(at, q[0, list(cut.tokens)], atol=1e-12)


def _area(polygon):
    x, y = polygon.T
    return abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
