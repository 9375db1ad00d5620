"""Colours: distinguishable for all kinds of vision, and shades of one colour within a cell."""

import numpy as np
import pytest

from hardmax._ground.palette import (
    cell_colours,
    label_colours,
    oklch_to_rgb,
    palette,
    simulate_vision,
    strong_colours,
)

THEMES = ("light", "dark")


def smallest_gap(seen):
    gaps = np.linalg.norm(seen[:, None] - seen[None], axis=-1)
    return gaps[np.triu_indices(len(seen), 1)].min()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("kind", ["cells", "strong"])
def test_every_eye_tells_the_colours_apart(theme, kind):
    colours = (
        oklch_to_rgb(palette()[theme][kind]) if kind == "strong" else label_colours(range(7), theme)
    )
    for seen in simulate_vision(colours).values():
        assert smallest_gap(seen) > 0.05


@pytest.mark.parametrize("theme", THEMES)
def test_every_eye_tells_the_tints_of_a_hue_apart(theme):
    for seen in simulate_vision(label_colours(range(21), theme)).values():
        for hue in range(7):
            assert smallest_gap(seen[hue::7]) > 0.02


@pytest.mark.parametrize("theme", THEMES)
def test_lines_stand_out_on_the_paper_and_on_cells(theme):
    seen = simulate_vision(oklch_to_rgb(palette()[theme]["strong"]))["normal"][:, 0]
    cells = simulate_vision(label_colours(range(21), theme))["normal"][:, 0]
    paper = 1.0 if theme == "light" else 0.18
    assert np.abs(seen - paper).min() > 0.3
    assert (np.median(seen) < cells.min()) if theme == "light" else (np.median(seen) > cells.max())


@pytest.mark.parametrize("theme", THEMES)
def test_two_sides_of_a_wall_have_different_colours(theme):
    rng = np.random.default_rng(0)
    for place, n_forms in enumerate((2, 2, 15, 2)):
        winners = rng.integers(0, np.repeat((2, 2, 15, 2), 5), (60, 20))
        across = winners.copy()
        group = 5 * place + rng.integers(0, 5, 60)
        here = np.arange(60), group
        across[here] = (winners[here] + rng.integers(1, n_forms, 60)) % n_forms
        colours = cell_colours(np.concatenate([winners, across]), [5] * 4, theme)
        one, other = np.split(simulate_vision(colours)["normal"], 2)
        assert np.linalg.norm(one - other, axis=1).min() > 0.003


@pytest.mark.parametrize("theme", THEMES)
def test_parts_of_a_cell_are_shades_of_it(theme):
    codes = np.random.default_rng(1).integers(0, 1000, (500, 4))
    codes[:, 0] %= 7
    _, a, b = simulate_vision(cell_colours(codes, [1] * 4, theme))["normal"].T
    parents = np.array(palette()[theme]["cells"])[codes[:, 0], 2]
    off = (np.rad2deg(np.arctan2(b, a)) - parents + 180.0) % 360.0 - 180.0
    assert np.abs(off).max() < 22.0


def test_a_cell_has_the_colour_of_its_label_where_one_layer_cuts():
    codes = np.array([[3, k, 9] for k in range(21)])
    np.testing.assert_array_equal(cell_colours(codes, [1] * 3), label_colours(range(21)))
    np.testing.assert_array_equal(cell_colours(codes[:1], [1] * 3), label_colours([0]))
    assert len(strong_colours()) == len(set(strong_colours())) == 7
