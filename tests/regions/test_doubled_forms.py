"""Forms composed in twice the precision: within their radii of the truth, and the same cells."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from hardmax.geometry.domains import Box, Segment, Slice, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.regions._lines import lines
from hardmax.regions._search.plane_domains import read_planar_domain
from hardmax.regions._search.rounded_forms import doubled_forms, scale_ratio
from hardmax.regions.engines import enumerate_regions
from tests.region_models import gaussian_relu

SCALE = 8.0


def assert_encloses(column, truth, shares):
    """The truth is within the radius, which `shares` bounds up to a factor."""
    for k, weight in enumerate((SCALE, SCALE, 1.0)):
        found = Fraction(column[k]) + Fraction(column[3 + k])
        assert abs(found - truth[k]) * Fraction(weight) <= Fraction(column[6])
        assert abs(column[3 + k]) <= 2.0**-53 * abs(column[k])
    assert column[6] <= shares * (1 + 1e-6) + 1e-290


def test_rational_forms_are_doubled():
    domain = read_planar_domain(
        Slice(np.full(3, 0.1), np.eye(3)[:2] / 3.0, Box([-1, -1], [1, 1])), 3
    )
    network = gaussian_relu(0, [3, 2]).network
    assert domain.inputs is not None
    forms = domain.inputs.compose(network.embedding)
    block = doubled_forms(forms, forms.rows, SCALE)
    up, down = scale_ratio(forms)
    for column, row in zip(block.T, forms.rows, strict=True):
        truth = [Fraction(int(x) * up, down) for x in row]
        assert_encloses(column, truth, 2.0**-100)


def signatures(cells):
    return sorted(map(tuple, cells.signatures.tolist()))


THIRDS = np.eye(5)[:2] / 3.0
DEEP = {
    "box": (3, [2, *[16] * 40], Box([-0.05, -0.05], [0.05, 0.05])),
    "slice": (4, [5, *[16] * 36], Slice(np.full(5, 0.1), THIRDS, Box([-0.1, -0.1], [0.1, 0.1]))),
    "space": (4, [3, *[16] * 40], Box([-0.015] * 3, [0.015] * 3)),
}


@pytest.mark.parametrize(("seed", "widths", "domain"), DEEP.values(), ids=DEEP)
def test_deep_networks_need_no_rational_arithmetic(seed, widths, domain):
    model = gaussian_relu(seed, widths)
    found = enumerate_regions(model, domain)
    assert found.decisions.rational == 0
    assert signatures(found) == signatures(enumerate_regions(model, domain, exact=True))


@pytest.mark.parametrize(("seed", "widths"), [(5, [2, *[4] * 12]), (0, [3, *[3] * 6])])
def test_generic_networks_need_none_at_infinity(seed, widths):
    # Regions with one unit on, or none, reach to infinity: lines are parallel there.
    model = gaussian_relu(seed, widths)
    found = enumerate_regions(model, WholeSpace(widths[0]))
    assert found.decisions.rational == 0
    assert signatures(found) == signatures(
        enumerate_regions(model, WholeSpace(widths[0]), exact=True)
    )


def with_repeated_units(seed, dim, width, depth, *, has_bias=True):
    """Gaussian units, the second of three the first again, the third its opposite."""
    rng = np.random.default_rng(seed)
    weights, biases, fan = [], [], dim
    for _ in range(depth):
        columns = rng.normal(0, np.sqrt(2 / fan), (fan + 1, width))
        columns[:, 1::3] = columns[:, 0::3][:, : len(columns[0, 1::3])]
        columns[:, 2::3] = -columns[:, 0::3][:, : len(columns[0, 2::3])]
        weights.append(columns[:-1])
        biases.append(columns[-1] * has_bias)
        fan = width
    return ReluNetwork([*weights, np.ones((fan, 1))], [*biases, [0.0]])


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("is_bounded", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_repeated_units_need_no_rational_arithmetic(dim, is_bounded, has_bias):
    model = with_repeated_units(dim, dim, 6, 4, has_bias=has_bias)
    domain = Box([-2.0] * dim, [3.0] * dim) if is_bounded else WholeSpace(dim)
    found, truth = (enumerate_regions(model, domain, exact=exact) for exact in (False, True))
    assert found.decisions.rational == 0
    assert signatures(found) == signatures(truth)
    assert (found.n_regions, found.n_affine_maps) == (truth.n_regions, truth.n_affine_maps)


def test_regions_with_one_unit_on_and_no_biases_need_none():
    rng = np.random.default_rng(0)
    sizes = [2, *[8] * 8, 1]
    shapes = pairwise(sizes)
    model = ReluNetwork([rng.normal(0, np.sqrt(2 / a), (a, b)) for a, b in shapes])
    box = Box([-5.0, -5.0], [5.0, 5.0])
    found = enumerate_regions(model, box)
    assert found.decisions.rational == 0
    assert signatures(found) == signatures(enumerate_regions(model, box, exact=True))


@pytest.mark.parametrize(
    ("seed", "widths", "domain"),
    [
        (0, [2, *[16] * 40], Segment([-0.3, -0.3], [0.3, 0.3])),
        (1, [3, *[24] * 28], Segment([-0.2, 0.1, 0.3], [0.2, 0.3, 0.5])),
        (2, [1, *[8] * 36], WholeSpace(1)),
    ],
)
def test_deep_lines_need_no_rational_arithmetic(seed, widths, domain):
    network = gaussian_relu(seed, widths).network
    found, truth = lines.explore(network, domain), lines.explore(network, domain, exact=True)
    assert found.search.decisions.rational == 0
    assert found.breakpoints.tolist() == truth.breakpoints.tolist()
    assert found.signatures.tolist() == truth.signatures.tolist()
