"""Animations: one frame per temperature, or per layer that cuts."""

import numpy as np
import pytest
from PIL import Image

from hardmax.errors import ArgumentError
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.plotting.animations import animate_depth, animate_temperature
from hardmax.plotting.drawing import plot
from hardmax.plotting.partitions import count_cells_by_layer
from hardmax.regions.engines import enumerate_regions

SQUARE = Box([-2, -2], [2, 2])
HEAD = AttentionHead(np.eye(2), [[1.0, 0.0], [-1.0, 1.0]], np.eye(2), np.eye(2))


def test_a_head_at_falling_temperatures(tmp_path):
    path = animate_temperature(HEAD, [1.0, 0.1], SQUARE, tmp_path / "head.gif", resolution=8)
    with Image.open(path) as picture:
        assert picture.n_frames == 2
        first = np.asarray(picture.convert("RGB"))
        picture.seek(1)
        assert (np.asarray(picture.convert("RGB")) != first).any()


def test_a_partition_layer_by_layer(tmp_path):
    models = [random_transformer(np.random.default_rng(1), 3, 1, 3, n) for n in (1, 2)]
    parts = [enumerate_regions(model, SQUARE) for model in models]
    counts = count_cells_by_layer(parts[1])
    assert counts[2] == parts[0].n_cells
    assert max(counts.values()) == parts[1].n_cells
    page = animate_depth(parts[1], tmp_path / "depth.html").read_text()
    assert page.count("<img") == len(counts)
    assert page.count(" hidden>") == len(counts) - 1


def test_what_cannot_be_shown_is_refused(tmp_path):
    part = enumerate_regions(random_transformer(np.random.default_rng(1), 3, 1, 3, 1), SQUARE)
    with pytest.raises(ArgumentError, match=r"`path` must end in \.gif or \.html"):
        animate_depth(part, tmp_path / "depth.mp4")
    with pytest.raises(ArgumentError, match="`temperatures`"):
        animate_temperature(HEAD, [], SQUARE, tmp_path / "head.gif")
    with pytest.raises(ArgumentError, match="`layers` must be at most 2"):
        plot(part, color="cell", layers=3)
    with pytest.raises(ArgumentError, match="`seconds`"):
        animate_depth(part, tmp_path / "depth.gif", seconds=0)
