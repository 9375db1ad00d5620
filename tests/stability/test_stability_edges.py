"""Finite temperature at the edges: ties, walls at fractions, coinciding scores, extreme scales."""

import json
from fractions import Fraction

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from hardmax import stability as sb
from hardmax.cli.stability import stability
from hardmax.errors import ArgumentError, EmptyInputError, ShapeMismatchError
from hardmax.geometry.domains import Box
from hardmax.models.evaluation import soft
from hardmax.models.heads import AttentionHead
from hardmax.models.tokens.transformers import TokenBlock, TokenHead, TokenTransformer
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from tests.stability_models import SIGN


def line_head(keys, bias=None, values=None):
    """A head on the line; scores are key times x plus bias."""
    column = np.array(keys, dtype=float)[:, None]
    return AttentionHead(
        [[1.0]], column, column if values is None else values, [[1.0]], logit_bias=bias
    )


def test_three_copies_of_a_key_leave_no_error_at_all():
    # A third is no float: rounding it would leave an error of 1e-58.
    head = line_head([2.0, 2.0, 2.0], values=[[1.0], [5.0], [-7.0]])
    model = HardTransformer([Block([head]), Block([head, head])])
    for radius in (0.0, 0.25):
        certificate = sb.certify_soft(model, [0.7], 0.3, radius)
        assert certificate.error.tolist() == [0.0]
        assert certificate.log_error.tolist() == [-np.inf]


def test_copies_of_the_winner_do_not_blur_tiny_errors():
    head = line_head([1.0, 1.0, 1.0, -1.0], values=[[1.0], [5.0], [-7.0], [3.0]])
    certificate = sb.certify_soft(head, [100.0], 1.0)
    # The mean of the winners is -1/3 and the rival's share r / (3 + r), r = exp(-200).
    assert certificate.log_error[0] == pytest.approx(np.log(10 / 9) - 200.0, abs=1e-12)


@pytest.mark.parametrize("wall", [3.0, 5.0, 7.0])
def test_walls_of_units_at_fractions_do_not_loosen_the_hard_share(wall):
    head = line_head([-1.0, 1.0], values=[[0.0], [0.0]])
    unit = FeedForward([[wall]], [-1.0], [[1.0]], None)
    model = HardTransformer([Block([head], unit)])
    share = sb.hard_share(model, Box([-1], [2]), tau=0.01, epsilon=0.1)
    # The gap is 2|x|: hard where |x| >= 0.005 log 9.
    exact = 1 - 0.01 * np.log(9) / 3
    assert float(share.lower) <= exact <= float(share.upper)
    assert share.upper - share.lower < Fraction(1, 10**5)


def test_sampled_and_exact_margins_agree_where_different_keys_have_one_score():
    head = AttentionHead(
        np.eye(2), [[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0]], np.zeros((3, 2)), np.eye(2)
    )
    model = HardTransformer([Block([head])], embedding=([[1.0, 0.0]], None))
    box = Box([-1], [3])
    assert sb.margin_bands(model, box, 1.0).inside == Fraction(3, 4)
    # Without the second key the gaps are the same, and the points drawn as well.
    assert sb.sample_margin_share(model, box, 1.0, 200) == sb.sample_margin_share(
        SIGN, box, 1.0, 200
    )


def test_a_cell_that_is_hardest_on_the_wall_of_another_head_is_enclosed_as_closely():
    # With epsilon = 0.6 two keys are hard everywhere, so the best point may be on their wall.
    always = line_head([0.0, 1.0])
    other = line_head([0.0, 1.0, 1.0], bias=[0.0, -1.0, -5.0])
    found = sb.persistence(Block([always, other]), Box([-1], [0.5]), 0.6)
    right = int(np.flatnonzero(found.partition.signatures[:, 0] == 1)[0])
    assert found.temperatures[right] > 1.2 * found.by_margins[right]
    assert found.limits[right] == pytest.approx(found.temperatures[right], rel=1e-4)


@pytest.mark.parametrize(
    ("size", "scale", "tau"), [(1e300, 1e200, 1e-300), (1e300, 1.0, 1e-300), (1e-300, 1.0, 1e300)]
)
def test_sizes_near_the_ends_of_float64_neither_overflow_nor_lie(size, scale, tau):
    block = Block([line_head([-scale, 0.0, scale], bias=[0.0, 1.0, 0.0])])
    box = Box([-size], [size])
    found = sb.persistence(block, box, 0.1)
    assert (found.temperatures <= found.limits).all()
    cells = sb.persistent_cells(block, box, tau, 0.1)
    assert cells.is_certified.tolist() == (found.temperatures >= tau).tolist()
    share = sb.hard_share(block, box, tau, 0.1)
    assert 0 <= share.lower <= share.upper <= 1
    assert repr(found).startswith("Persistence(")
    assert repr(sb.cell_margins(block, box)).startswith("CellMargins(")


def test_diameters_of_the_jacobian_bound_broadcast_and_do_not_overflow():
    large = sb.jacobian_bound(3, 1.0, 1.0, 1e308, 1.0)
    assert large == pytest.approx(1e308 * sb.jacobian_bound(3, 1.0, 1.0, 1.0, 1.0), rel=1e-14)
    with pytest.raises(ShapeMismatchError, match="`value_diameter`"):
        sb.jacobian_bound([3, 4], 1.0, 1.0, 1.0, 1.0, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("x", "taus", "error", "name"),
    [
        (np.zeros((0, 1)), [1.0], EmptyInputError, "x"),
        ([[1.0]], [], EmptyInputError, "taus"),
        ([[1.0]], [[1.0, 2.0]], ShapeMismatchError, "taus"),
    ],
)
def test_error_curves_need_points_and_a_list_of_temperatures(x, taus, error, name):
    with pytest.raises(error, match=f"`{name}` must"):
        sb.error_curves(SIGN, x, taus)


def test_a_table_prints_every_bound_in_aligned_columns():
    table = sb.stability_table(512, 2.0, 64, tau=3.0)
    title, *rows = str(table).splitlines()
    assert title == "N = 512, margin 2, d_k = 64, epsilon = 0.01"
    assert len({len(row) for row in rows[:9]}) == 1
    assert rows[1].split() == ["tau", "0.125", "0.125", "8", "1", "3"]
    assert rows[5].split()[-5:] == ["0.00046004", "0.00046089", "0.061534", "0.28884", "0.14944"]
    assert rows[9:14] == [f"({k}) {c.name}" for k, c in enumerate(table.columns, 1)]
    assert rows[-1] == "A margin of 2 leaves rivals at most 0.01 up to tau = 0.18465."


@pytest.mark.parametrize(
    ("arguments", "reach"),
    [((1, 0.0, 4), "at every temperature"), ((3, 0.0, 4), "at no temperature")],
)
def test_a_table_says_where_no_temperature_decides(arguments, reach):
    assert sb.stability_table(*arguments).remarks[-1].endswith(f"0.01 {reach}.")


def test_a_claim_that_underflows_stays_a_bound():
    assert sb.stability_table(3, 1e9, 64).columns[0].rival_mass > 0.0


def test_json_of_the_command_has_no_infinity():
    app = typer.Typer()
    app.command()(stability)
    sizes = ["--keys", "2", "--margin", "2", "--d-k", "4", "--json"]
    for more in (["--epsilon", "0.6"], ["--tau", "1e308", "--epsilon", "1e-300"]):
        result = CliRunner().invoke(app, [*sizes, *more])
        assert result.exit_code == 0
        fields = json.loads(result.output, parse_constant=pytest.fail)
        assert fields["temperature_needed"] is None or more[0] == "--tau"


@pytest.mark.parametrize(
    "call",
    [
        lambda model, box: sb.certify_soft(model, [0.5], 1.0),
        lambda model, box: sb.error_curves(model, [0.5], 1.0),
        lambda model, box: sb.persistence(model, box, 0.1),
        lambda model, box: sb.persistent_cells(model, box, 1.0, 0.1),
        lambda model, box: sb.hard_share(model, box, 1.0, 0.1),
        lambda model, box: sb.sample_hard_share(model, box, 1.0, 0.1, 10),
        lambda model, box: sb.temperature_for(model, box, 0.1),
    ],
)
def test_models_that_soften_in_another_way_than_their_network_are_refused(call):
    # The head passes on its score: a unit of the network, which stays hard, but soft in the model.
    head = TokenHead([[0.0], [1.0]], [[1.0], [0.0]], [[1.0], [0.0]], [[1.0, 0.0]])
    weight, bias = [[[1.0, 0.0], [-1.0, 0.0]]], [[0.0, 1.0], [0.0, 1.0]]
    model = TokenTransformer(
        weight, bias, [TokenBlock([head], None, False)], ([[1.0], [0.0]], [0.0])
    )
    assert model.soft([0.5], 1.0) != soft(model.network, [0.5], 1.0)
    with pytest.raises(ArgumentError, match="whose output at a positive temperature is not"):
        call(model, Box([-1], [1]))
    assert sb.measure_margins(model, [0.5]).distances.tolist() == [0.5]
