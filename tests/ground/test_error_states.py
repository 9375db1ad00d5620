"""The caller's `numpy.errstate` changes no result: nothing raises where the caller asks for it."""

import numpy as np
import pytest

import hardmax as hm
from tests.extreme_models import model_and_domain
from tests.ground.examples import TAKES_LONG, prepare, public_examples

EXAMPLES = public_examples()


def test_examples_of_public_names_run_where_floating_point_errors_raise():
    failed = {}
    for name in sorted(EXAMPLES.keys() - TAKES_LONG):
        run = prepare(EXAMPLES[name])
        try:
            with np.errstate(all="raise"):
                run()
        except FloatingPointError as error:
            failed[name] = str(error)
    assert failed == {}


@pytest.mark.parametrize("seed", range(0, 80, 4))
def test_cells_at_all_magnitudes_are_the_same_where_floating_point_errors_raise(seed):
    model, domain = model_and_domain(seed)

    def found():
        part = hm.enumerate_regions(model, domain, max_cells=200)
        return (
            part.signatures,
            part.witnesses,
            part.region_labels,
            part.map_classes,
            part.neighbours.pairs,
            model.signature(np.eye(model.dim_in)),
        )

    usual = found()
    with np.errstate(all="raise"):
        for kept, again in zip(usual, found(), strict=True):
            np.testing.assert_array_equal(kept, again)


def test_regions_are_merged_where_floating_point_errors_raise():
    rng = np.random.default_rng(0)
    model = hm.ReluNetwork([rng.integers(-2, 3, (2, 6)), rng.integers(-2, 3, (6, 1))])
    with np.errstate(all="raise"):
        part = hm.enumerate_regions(model, hm.Box([-2, -2], [2, 2]))
        assert part.n_regions <= part.n_cells
