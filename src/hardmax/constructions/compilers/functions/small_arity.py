r"""Maxima of many forms as signed sums of maxima of at most $d + 1$ forms, for $d \le 2$.

Triangulate the regular subdivision dual to $P = \max_i \ell_i$ (`tropical.subdivisions`). Hanging
every face down along the last axis turns the faces $\sigma$ into polyhedra whose support function
in the direction $(x, 1)$ is $\max_{i \in \sigma} \ell_i(x)$, and the support function is a
valuation. The indicator of a triangulated ball is the alternating sum over its interior faces, so

$$\max_i \ell_i = \sum_{\sigma \text{ interior}} (-1)^{k - \dim\sigma} \max_{i \in \sigma} \ell_i,$$

where $k$ is the dimension of the Newton polytope. No term has more than $d + 1$ forms [WS05], which
is the best possible [KMPS23], and the number of terms is linear in the number of faces. A
transformer for it has $d + 1$ tokens, however many pieces there are, and a head for each term.
"""

from itertools import pairwise

import numpy as np
from flint import fmpq

from hardmax._ground.arguments import read_only_copy
from hardmax.constructions.compilers.maxout_assembly import (
    MaxoutForm,
    assemble,
    exact_numbers,
    round_up,
)
from hardmax.errors import ArgumentError, DtypeError
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.typing import FloatArray, WideArray

Face = tuple[int, ...]


def reduce_arity(form: MaxoutForm) -> MaxoutForm:
    r"""Replace every unit with more than $d + 1$ forms by units with at most $d + 1$ forms.

    Terms with a single form are affine. They are added up in one unit for each output, which may be
    rounded to float64.

    Args:
        form: A function of $d = 1$ or 2 variables, as a network with one hidden layer.

    Returns:
        The same function, with a bound on the total rounding of both steps.

    Raises:
        DtypeError: If `form` is not a `MaxoutForm`.
        ArgumentError: If the function has more than two variables, or the network has more than one
            hidden layer.

    Examples:
        >>> from hardmax import Box
        >>> from hardmax.constructions import Knots, maxout_from_knots
        >>> steps = maxout_from_knots(Knots([0, 1, 2, 3], [0, 0, 1, 3]), Box([0], [4]))
        >>> steps.network, reduce_arity(steps).network
        (MaxoutNetwork(1 -> [1] -> 1, ranks 3 to 3), MaxoutNetwork(1 -> [3] -> 1, ranks 1 to 2))
        >>> reduce_arity(steps).network([[0.5], [1.5], [4.0]]).ravel().tolist()
        [0.0, 0.5, 5.0]
    """
    if not isinstance(form, MaxoutForm):
        raise DtypeError(f"`form` must be a MaxoutForm; got {type(form).__name__}.")
    network = form.network
    if not is_reducible(form):
        raise ArgumentError(
            "`form` must be a function of one or two variables with one hidden layer; got "
            f"{network!r}."
        )
    units: list[WideArray] = []
    columns: list[FloatArray] = []
    n_out, dim = network.dim_out, network.dim_in
    affine = np.array([[fmpq(0)] * (dim + 1) for _ in range(n_out)], dtype=object)
    pairs = zip(network.weights[0], (network.biases or ())[0], strict=True)
    for (slopes, offsets), weights in zip(pairs, network.weights[-1], strict=True):
        forms = exact_numbers(np.column_stack([slopes, offsets]))
        for sign, face in signed_faces(TropicalPolynomial(slopes, offsets)):
            if len(face) == 1:
                affine += sign * exact_numbers(weights)[:, None] * forms[face[0]]
            else:
                units.append(forms[list(face)])
                columns.append(sign * weights)
    for c in range(n_out):
        if any(affine[c]) or not any(column[c] for column in columns):
            units.append(affine[[c]])
            columns.append(np.eye(n_out)[c])
    reduced = assemble(units, np.stack(columns), form.box, form.method)
    total = exact_numbers(form.rounding) + exact_numbers(reduced.rounding)
    return MaxoutForm(
        reduced.network, read_only_copy(round_up(total.tolist())), form.box, form.method
    )


def is_reducible(form: MaxoutForm) -> bool:
    """Return whether `reduce_arity` applies: one or two variables and one hidden layer."""
    return len(form.network.ranks) == 1 and form.network.dim_in <= 2


def signed_faces(polynomial: TropicalPolynomial) -> list[tuple[int, Face]]:
    r"""Return the interior faces of a triangulated dual subdivision with their signs.

    Args:
        polynomial: A polynomial in one or two variables.

    Returns:
        Pairs of a sign and the terms on a face: $P = \sum \pm \max_{i \in \sigma} \ell_i$.

    Examples:
        >>> signed_faces(TropicalPolynomial([[-1], [0], [1]], [0, 1, 0]))
        [(1, (0, 1)), (1, (1, 2)), (-1, (1,))]
    """
    division = polynomial.dual_subdivision()
    corners = [[int(v) for v in cell] for cell in division.corners]
    if len(corners[0]) == 1:
        return [(1, (corners[0][0],))]
    if len(corners[0]) == 2:
        ends = [pair[1] for pair in corners[:-1]]
        return [*((1, (a, b)) for a, b in corners), *((-1, (v,)) for v in ends)]
    faces: list[tuple[int, Face]] = []
    for cell in corners:
        first, *others = cell
        faces += [(1, (first, a, b)) for a, b in pairwise(others)]
        # A fan of triangles has a diagonal to every corner but the first, second and last.
        faces += [(-1, (first, a)) for a in others[1:-1]]
    inner = (division.edge_cells >= 0).all(axis=1)
    faces += [(-1, (int(a), int(b))) for a, b in division.edges[inner]]
    outline = {int(v) for v in division.edges[~inner].ravel()}
    return faces + [(1, (int(v),)) for v in division.vertices if int(v) not in outline]
