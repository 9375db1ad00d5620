"""Graph networks, drawn on a plane and on a segment."""

import numpy as np
import pytest

import hardmax as hm


@pytest.fixture(scope="module")
def net():
    rng = np.random.default_rng(3)
    build = hm.models.GraphBuilder()
    h = build.relu(build.convolve(build.input((1, 4, 4)), rng.normal(size=(2, 1, 3, 3))))
    return build.finish(build.multiply(build.flatten(h), rng.normal(size=(8, 3))))


def test_a_plane_has_a_hue_for_each_class_and_the_boundary(net):
    images = np.random.default_rng(4).normal(size=(3, 16)).round(2)
    plane = hm.Slice(
        images[0], [images[1] - images[0], images[2] - images[0]], hm.Box([-2, -2], [2, 2])
    )
    part = hm.enumerate_regions(net, plane)
    ax = hm.plot(part, names=["cat", "dog", "owl"])
    polygons, *walls, boundary = ax.collections
    assert len(polygons.get_paths()) == part.n_pieces
    assert walls
    assert len(boundary.get_segments()) == len(part.decision_boundary) > 0
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == [["cat", "dog", "owl"][k] for k in np.unique(part.classes)]
    assert ax.get_xlabel() == "$t_1$"
    # A class has one hue: neighbours of two classes never have the same colour.
    colours = [tuple(row) for row in polygons.get_facecolor()]
    for one in np.unique(part.classes):
        own = {c for c, k in zip(colours, part.classes, strict=True) if k == one}
        other = {c for c, k in zip(colours, part.classes, strict=True) if k != one}
        assert not own & other


def test_a_segment_shows_the_outputs(net):
    images = np.random.default_rng(5).normal(size=(2, 16)).round(2)
    part = hm.enumerate_regions(net, hm.Segment(*images))
    ax = hm.plot(part)
    for k, line in enumerate(ax.lines[:3]):
        t, values = line.get_data()
        points = images[0] + np.multiply.outer(t, images[1] - images[0])
        np.testing.assert_allclose(values, net(points)[:, k], atol=1e-9)
    # The ends are the ends of the domain, in any coordinates.
    plane = hm.Slice(images[0], [images[1] - images[0]], hm.Box([-1], [2]))
    assert hm.plot(hm.enumerate_regions(net, plane)).get_xlim() == (-1.0, 2.0)
    with pytest.raises(hm.errors.ArgumentError, match="`names` must have 3 entries; got 1"):
        hm.plot(part, names=["one"])
