"""The caller's `numpy.errstate` does not change results, and no error is raised."""

import numpy as np
import pytest
from flint import fmpq

import hardmax as hm
from hardmax.constructions.compilers.maxout_assembly import round_up
from hardmax.regions.certificate_parts import part_contexts, part_ends
from hardmax.regions.certificates import make_part
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


MOST = float(np.finfo(np.float64).max)
HUGE = [
    hm.ReluNetwork([[[0.5]], [[1.0]]], [[MOST], [0.0]]),
    hm.HardTransformer(
        [
            hm.Block(
                [
                    hm.AttentionHead(
                        np.eye(2), [[0.3, 0.1], [0.7, 0.3]], np.eye(2), np.eye(2), None, [MOST] * 2
                    )
                ]
            )
        ]
    ),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("state", ["warn", "raise"])
@pytest.mark.parametrize("model", HUGE, ids=repr)
def test_models_are_evaluated_where_their_scores_overflow(model, state):
    with np.errstate(over=state, invalid=state):
        model([0.3] * model.dim_in)
        model.signature([0.3] * model.dim_in)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [2.0**-1074, 2.0**-540, 2.0**511, 2.0**1023])
def test_graphs_are_evaluated_at_all_magnitudes_where_floating_point_errors_raise(scale):
    build = hm.models.GraphBuilder()
    hidden = build.relu(
        build.multiply(build.input((2,)), scale * np.array([[1.0, 0.5], [1.0, -1]]))
    )
    network = build.finish(build.multiply(hidden, [[scale], [1.0]]))
    usual = network([1e3, 1.0])
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(network([1e3, 1.0]), usual)
        hm.cell_at(network, [1e3, 1.0])


@pytest.mark.parametrize("small", [2.0**-1074, 2.0**-600, 2.0**-540])
def test_cells_around_points_are_found_where_floating_point_errors_raise(small):
    model = hm.ReluNetwork([[[1.0, 2.0], [small, 0.5]], [[1.0], [small]]], [[0.5, 50.0], None])
    usual = hm.cell_at(model, [0.25, 0.5])
    with np.errstate(all="raise"):
        cell = hm.cell_at(model, [0.25, 0.5])
        assert cell.wall == usual.wall
        assert cell.beyond.signature.tolist() == usual.beyond.signature.tolist()
        assert cell.along([-1.0, -small]).distance == usual.along([-1.0, -small]).distance


@pytest.mark.parametrize("scale", [1.0, 2.0**-1060])
def test_parts_of_certificates_are_verified_where_floating_point_errors_raise(scale):
    rng = np.random.default_rng(0)
    model = hm.ReluNetwork([scale * rng.normal(size=(2, 4)), np.ones((4, 1))])
    domain = hm.Box([-2, -2], [2, 2])
    cells = hm.enumerate_regions(model, domain).signatures
    halves = np.split(cells, [len(cells) // 2])
    ends = [part_ends(model.network, own, "tiling") for own in halves]
    contexts = part_contexts(model.network, ends, "tiling")
    with np.errstate(all="raise"):
        parts = [
            make_part(model.network, domain, own, context=context)
            for own, context in zip(halves, contexts, strict=True)
        ]
        assert hm.verify_certificate(model, parts).n_cells == len(cells)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("state", ["warn", "raise"])
def test_what_is_beyond_all_floats_is_rounded_up_to_infinity(state):
    numbers = [fmpq(int(MOST)), fmpq(int(MOST) + 1), fmpq(2) ** 2000, fmpq(1, 2**1080)]
    with np.errstate(all=state):
        assert round_up(numbers).tolist() == [MOST, np.inf, np.inf, 5e-324]
