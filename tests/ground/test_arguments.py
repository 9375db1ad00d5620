"""Reading of arguments: exact conversions are accepted, everything else is an error."""

import numpy as np
import pytest

from hardmax._ground.arguments import (
    Sizes,
    choice,
    floats,
    floats_any_shape,
    integer,
    number,
    read_only_copy,
)
from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    HardmaxError,
    NonFiniteError,
    ShapeMismatchError,
)


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2]],
        np.array([[1, 2]], np.int8),
        np.array([[1.5, 2]], np.float32),
        [[True, False]],
        np.asfortranarray([[1.0, 2.0]]),
        np.array([[2**53, -(2**60)]]),
        np.array([[1, 2]], np.longdouble),
    ],
)
def test_exact_conversions_pass(value):
    got = floats("x", value, ("n", "d"))
    assert got.dtype == np.float64
    assert got.flags.c_contiguous
    assert (got == np.asarray(value)).all()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([[1, 2], [3]], ShapeMismatchError),
        ([1.0, 2.0], ShapeMismatchError),
        (3.0, ShapeMismatchError),
        (np.array([[None]]), DtypeError),
        ([["a"]], DtypeError),
        (None, DtypeError),
        ([[1j]], DtypeError),
        (np.array([[2**53 + 1]]), DtypeError),
        (np.array([[2**64 - 1]], np.uint64), DtypeError),
        (np.array([[np.longdouble(1) / 3]]), DtypeError),
        ([[np.nan]], NonFiniteError),
        ([[np.inf]], NonFiniteError),
        ([[-np.inf]], NonFiniteError),
        (np.empty((0, 2)), EmptyInputError),
        (np.empty((2, 0)), EmptyInputError),
    ],
)
def test_the_rest_is_refused_by_name(value, error):
    with pytest.raises(error, match="`keys` must"):
        floats("keys", value, ("n_keys", "d_k"))
    assert issubclass(error, HardmaxError)


def test_a_disagreement_names_both_arguments():
    sizes = Sizes()
    sizes.floats("keys", np.zeros((3, 2)), ("n_keys", "d_k"))
    with pytest.raises(
        ShapeMismatchError, match=r"`values` .*n_keys = 3 \(as in `keys`\); got \(4, 1\)"
    ):
        sizes.floats("values", np.zeros((4, 1)), ("n_keys", "d_v"))


def test_a_name_twice_in_a_shape_means_a_square():
    assert floats("m", np.eye(2), ("k", "k")).shape == (2, 2)
    for bad in (np.zeros((2, 3)), np.zeros((3, 2))):
        with pytest.raises(ShapeMismatchError, match=r"`m` must have shape \(k, k\); got"):
            floats("m", bad, ("k", "k"))


def test_emptiness_is_asked_of_the_named_axes_only():
    assert floats("x", np.empty((2, 0)), ("n", "d"), nonempty=("n",)).shape == (2, 0)
    assert floats("x", np.empty((0, 0)), ("n", "d"), nonempty=False).shape == (0, 0)
    with pytest.raises(EmptyInputError, match="n >= 1"):
        floats("x", np.empty((0, 2)), ("n", "d"), nonempty=("n",))


def test_infinities_pass_where_they_are_allowed():
    assert floats_any_shape("x", -np.inf, infinity="negative") == -np.inf
    assert floats_any_shape("x", [np.inf, -np.inf], infinity="both").shape == (2,)
    with pytest.raises(NonFiniteError, match=r"`x` must not hold inf; found one at index \(1,\)"):
        floats_any_shape("x", [0, np.inf], infinity="negative")


def test_integers_are_read_as_integers():
    assert Sizes().ints("i", [1, 2], ("n",)).dtype == np.int64
    with pytest.raises(DtypeError, match="`i`"):
        Sizes().ints("i", [1.0], ("n",))


def test_integers_that_do_not_fit_int64_are_refused():
    with pytest.raises(DtypeError, match=r"`i` .* fit int64; got 9223372036854775808"):
        Sizes().ints("i", np.array([0, 2**63], dtype=np.uint64), ("n",))


def test_arrays_at_odd_addresses_are_copied_to_even_ones():
    at_odd = np.zeros(17, np.uint8)[1:].view(np.float64)
    assert not at_odd.flags.aligned
    assert Sizes().floats("x", at_odd, ("n",)).flags.aligned
    at_odd = np.zeros(17, np.uint8)[1:].view(np.int64)
    assert Sizes().ints("x", at_odd, ("n",)).flags.aligned

    assert integer("n", np.int8(3), at_least=3, at_most=3) == 3
    for bad, error in (
        (2.0, DtypeError),
        (True, DtypeError),
        ("2", DtypeError),
        (0, ArgumentError),
    ):
        with pytest.raises(error, match="`n`"):
            integer("n", bad, at_least=1)
    with pytest.raises(ArgumentError, match="at most 3; got 4"):
        integer("n", 4, at_most=3)


def test_numbers_keep_their_limits():
    assert number("tau", 0, at_least=0) == 0.0
    for bad, error in ((np.nan, NonFiniteError), ([1.0], ShapeMismatchError), (-1, ArgumentError)):
        with pytest.raises(error, match="`tau`"):
            number("tau", bad, at_least=0)
    with pytest.raises(ArgumentError, match="above 0"):
        number("tau", 0, above=0)


def test_choices_are_listed():
    assert choice("mode", "a", ("a", "b")) == "a"
    with pytest.raises(ArgumentError, match="`mode` must be one of a, b; got 'c'"):
        choice("mode", "c", ("a", "b"))


def test_owned_arrays_cannot_change():
    original = np.zeros(2)
    mine = read_only_copy(original)
    original[0] = 1.0
    assert mine[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        mine[0] = 1.0


@pytest.mark.parametrize(
    ("value", "message"), [(True, "`tau` must be a number; got True"), (np.nan, "got NaN")]
)
def test_a_number_is_neither_a_bool_nor_nan(value, message):
    with pytest.raises(HardmaxError, match=message):
        number("tau", value)
