"""Validation of the arguments of bounds: keys per head, widths of layers, the kind of bias."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from hardmax._ground.arguments import choice, integer
from hardmax.errors import ArgumentError, DtypeError, EmptyInputError, ShapeMismatchError

Bias: TypeAlias = Literal["none", "query", "logit"]
"""The bias of a head, added to the scores $\\langle W_Q^\\top x, k_j\\rangle$: none, a query bias
$b_Q$, which adds $\\langle b_Q, k_j\\rangle$, or a logit bias $\\beta_j$ for each key."""

BIASES: tuple[Bias, ...] = ("none", "query", "logit")

HeadSizes: TypeAlias = int | Sequence[int]
"""The number of keys: one number for all heads, or a sequence with one number per head."""


def read_bias(bias: str) -> Bias:
    """Read the kind of bias."""
    return cast(Bias, choice("bias", bias, BIASES))


def read_head_sizes(n_keys: HeadSizes, n_heads: int | None) -> tuple[int, ...]:
    """Return the number of keys of every head.

    Args:
        n_keys: One number for all heads, or a sequence with one number per head.
        n_heads: The number of heads; may be None if `n_keys` is a sequence.

    Raises:
        DtypeError: If an entry is not an integer.
        ArgumentError: If a number is below 1, or `n_heads` is missing.
        EmptyInputError: If the sequence is empty.
        ShapeMismatchError: If the sequence does not have `n_heads` entries.

    Examples:
        >>> read_head_sizes(4, 3), read_head_sizes([2, 5], None)
        ((4, 4, 4), (2, 5))
    """
    if n_heads is not None:
        n_heads = integer("n_heads", n_heads, at_least=1)
    if isinstance(n_keys, int | np.integer):
        keys = integer("n_keys", n_keys, at_least=1)
        if n_heads is None:
            raise ArgumentError("`n_heads` is required if `n_keys` is one number; got None.")
        return (keys,) * n_heads
    sizes = read_integers("n_keys", n_keys, at_least=1)
    if n_heads is not None and len(sizes) != n_heads:
        raise ShapeMismatchError(
            f"`n_keys` must be one integer or have one entry per head (`n_heads` = {n_heads}); got "
            f"{len(sizes)} entries."
        )
    return sizes


def read_integers(name: str, values: Any, *, at_least: int) -> tuple[int, ...]:
    """Read a nonempty sequence of integers, each at least `at_least`."""
    try:
        entries = tuple(values)
    except TypeError:
        raise DtypeError(f"`{name}` must be a sequence of integers; got {values!r}.") from None
    if not entries:
        raise EmptyInputError(f"`{name}` must have at least one entry; got none.")
    return tuple(
        integer(f"{name}[{i}]", entry, at_least=at_least) for i, entry in enumerate(entries)
    )
