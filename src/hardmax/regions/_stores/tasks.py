"""The remaining work of a search as bytes: the cells on its stack, and the path to them.

The bytes are plain arrays, and reading them executes no code. Impossible numbers are rejected,
because compiled code uses them as indices. Cells whose vertices contradict their facets are
rejected too, because each split of such a cell could square the number of its vertices.
"""

import io
import zipfile
import zlib
from itertools import accumulate
from math import comb, prod
from typing import Any

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.regions._search.searches import N_EDGE, PlaneCell, SpaceCell, Task
from hardmax.typing import AnyArray, IntArray

_Kinds = dict[str, tuple[Any, int]]
"""For each array, the type of its entries and the number of its axes."""
_PLANE: _Kinds = {"edges": (np.float64, 2), "walls": (np.int32, 2)}
_SPACE: _Kinds = {
    "vertices": (np.float64, 2),
    "facets": (np.float64, 2),
    "walls": (np.int32, 2),
    "masks": (np.uint64, 2),
    "ties": (np.int32, 2),
    "is_pure": (np.int32, 1),
}
_COMMON: _Kinds = {"places": (np.int32, 2), "signature": (np.int32, 1), "typical": (np.int8, 1)}
_MAX_BYTES = 1 << 31
_LARGEST_TYPICAL = 127
_ROUNDING, _SMALLEST = 2.0**-48, 2.0**-1000
"""Generous error bounds for a sum of at most ten products: relative rounding, and underflow."""


def stack_bytes(stack: list[Task]) -> bytes:
    """Write the stack of a search, the lowest cell first, as `CoreSearch.take_lowest` returns it.

    All cells must have the same path: `signature` and `typical` are written once.
    """
    top = stack[-1]
    kinds = _PLANE if isinstance(top.cell, PlaneCell) else _SPACE
    places = [
        (task.layer, task.is_part, task.is_merged, getattr(task.cell, "is_canonical", False))
        for task in stack
    ]
    arrays: dict[str, Any] = {
        "places": np.array(places, dtype=np.int32),
        "signature": top.signature.astype(np.int32),
        "typical": top.typical.astype(np.int8),
    }
    for name, (kind, n_axes) in kinds.items():
        parts = [getattr(task.cell, name) for task in stack]
        arrays[name] = np.concatenate([np.ravel(part).astype(kind) for part in parts])
        shapes = np.array([part.shape for part in parts], dtype=np.int64)
        arrays[f"{name}.shapes"] = shapes.reshape(len(stack), n_axes)
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def read_stack(
    content: bytes, network: ArgmaxNetwork, dim: int, first_walls: AnyArray | None = None
) -> list[Task]:
    """Read the output of `stack_bytes`, for a search of a network on a domain.

    Args:
        content: The bytes.
        network: The network.
        dim: The dimension of the domain.
        first_walls: The walls of the first cell of the domain; None to trust the walls of the task,
            if it is read only for an error message.

    Raises:
        RecordFormatError: If the bytes have another format, or do not fit the network.
    """
    kinds = _PLANE if dim == 2 else _SPACE
    try:
        arrays = _read_arrays(content, kinds)
        sizes = [np.diff(layer.starts) for layer in network.layers]
        # A split by a group leaves fewer cells on the stack than the group has forms.
        most = 2 * (sum(int(own.sum()) for own in sizes) + len(sizes) + 1)
        _require("places", len(arrays["places"]) <= most)
        stack = _build_stack(arrays, kinds)
        _check_stack(stack, network, dim, first_walls)
    except (
        ValueError, KeyError, TypeError, EOFError, OSError, RuntimeError, NotImplementedError,
        zlib.error, zipfile.BadZipFile,
    ) as error:  # fmt: skip
        raise RecordFormatError(
            f"`task` must be the remaining work of a search: {error!s:.200}."
        ) from None
    return stack


def _read_arrays(content: bytes, kinds: _Kinds) -> dict[str, AnyArray]:
    wanted = {**_COMMON, **kinds, **{f"{name}.shapes": (np.int64, 2) for name in kinds}}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > _MAX_BYTES:
            raise ValueError(f"its arrays need more than {_MAX_BYTES:,} bytes")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in wanted}
    for name, (kind, n_axes) in wanted.items():
        # The arrays of cells are stored flat.
        if arrays[name].dtype != kind or arrays[name].ndim != (1 if name in kinds else n_axes):
            raise ValueError(f"{name} must be an array of {np.dtype(kind)}")
    return arrays


def _build_stack(arrays: dict[str, AnyArray], kinds: _Kinds) -> list[Task]:
    places = arrays["places"]
    if places.shape[1:] != (4,) or not len(places):
        raise ValueError("places must have rows of 4 entries")
    fields: dict[str, list[AnyArray]] = {}
    for name, (_, n_axes) in kinds.items():
        shapes = arrays[f"{name}.shapes"]
        if shapes.shape != (len(places), n_axes) or (shapes < 0).any():
            raise ValueError(f"{name} must have a shape for each cell")
        # Python integers, because products of numbers in a file may overflow.
        ends = list(accumulate(prod(shape) for shape in shapes.tolist()))
        if ends[-1] != len(arrays[name]):
            raise ValueError(f"{name} must be as long as the shapes of its cells require")
        parts = np.split(arrays[name], ends[:-1])
        fields[name] = [
            np.ascontiguousarray(part.reshape(shape))
            for part, shape in zip(parts, shapes.tolist(), strict=True)
        ]
    stack = []
    for i, (layer, is_part, is_merged, is_canonical) in enumerate(places.tolist()):
        own = {name: parts[i] for name, parts in fields.items()}
        cell: PlaneCell | SpaceCell
        if "edges" in own:
            cell = PlaneCell(**own)
        else:
            sources = np.full(len(own["facets"]), -1, dtype=np.int32)
            cell = SpaceCell(**own, sources=sources, is_canonical=bool(is_canonical))
        path = arrays["signature"], arrays["typical"]
        stack.append(Task(layer, bool(is_part), *path, cell, bool(is_merged)))
    return stack


def _check_stack(
    stack: list[Task], network: ArgmaxNetwork, dim: int, first_walls: AnyArray | None
) -> None:
    layers = network.layers
    n_groups = np.array([layer.n_groups for layer in layers], dtype=np.int64)
    sizes = np.concatenate([[0], *(np.diff(layer.starts) for layer in layers)])[1:]
    signature, typical = stack[-1].signature, stack[-1].typical
    for name, winners in (("signature", signature), ("typical", typical)):
        _require(name, len(winners) >= len(sizes))
        own = winners[: len(sizes)]
        # The typical winners of larger groups are never read.
        is_read = sizes <= (_LARGEST_TYPICAL if name == "typical" else sizes)
        _require(name, ((own >= 0) & (own < sizes))[is_read].all())
    order = [task.layer for task in stack]
    _require("places", order == sorted(order) and order[0] >= 0 and order[-1] <= len(layers))
    _require("places", not any(task.is_part and task.layer == len(layers) for task in stack))
    # Merged forms belong to layers before the cell.
    _require("places", not any(task.is_merged and task.layer == 0 for task in stack))
    most_facets = _MAX_BYTES
    if first_walls is not None:
        # A wall of the domain, or a winner and a rival.
        most_facets = len(first_walls) + int((sizes * (sizes - 1)).sum())
    for task in stack:
        cell = task.cell
        _check_walls(cell.walls, n_groups, sizes)
        _require("walls", len(cell.walls) <= most_facets)
        if first_walls is not None:
            rows = cell.walls[cell.walls[:, 0] < 0][:, 1]
            _require("walls", np.isin(rows, first_walls[:, 1]).all())
        if isinstance(cell, PlaneCell):
            _require("edges", cell.edges.shape == (len(cell.walls), N_EDGE) and len(cell.walls) > 2)
            _check_corners(cell)
            continue
        n, n_facets = len(cell.vertices), len(cell.facets)
        _require("vertices", cell.vertices.shape == (n, 2 * dim + 2))
        _require("vertices", dim < n <= _max_vertices(n_facets, dim))
        _require("facets", cell.facets.shape == (n_facets, dim + 5))
        _require("walls", len(cell.walls) == n_facets and cell.is_pure.shape == (n_facets,))
        n_words = -(-n_facets // 64)
        _require("masks", len(cell.masks) == n and cell.masks.shape[1] >= n_words)
        _require("masks", not cell.masks[:, n_words:].any())
        words = np.ascontiguousarray(cell.masks[:, :n_words])
        bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        _require("masks", not bits[:, n_facets:].any())
        _require("ties", cell.ties.shape[1:] == (3,))
        facet, group, form = cell.ties.T
        _require("ties", ((facet >= -1) & (facet < n_facets)).all())
        _require("ties", ((group >= 0) & (group < len(sizes))).all())
        _require("ties", ((form >= 0) & (form < sizes[group])).all())
        _check_vertices(cell, bits[:, :n_facets].astype(bool))


def _max_vertices(n_facets: int, dim: int) -> int:
    """Return the maximum number of vertices of a polytope, by the upper bound theorem."""
    if n_facets <= dim:
        return 0
    near, far = comb(n_facets - (dim + 1) // 2, n_facets - dim), n_facets - dim // 2 - 1
    return near + comb(far, n_facets - dim)


def _check_corners(cell: PlaneCell) -> None:
    """Refuse a polygon if one of its edges does not lie on its line."""
    a, far = cell.edges[:, :3], cell.edges[:, 3]
    slope_radius, offset_radius = cell.edges[:, 4:6].T
    norm = np.abs(a[:, :2]).sum(axis=1)
    facets = np.column_stack([a, far, slope_radius, offset_radius, norm])
    vertices = cell.edges[:, N_EDGE // 2 :]
    # A corner lies on the edge that begins there and on the previous edge.
    places = np.arange(len(facets))
    is_on = np.zeros((len(facets), len(facets)), dtype=bool)
    is_on[places, places] = is_on[places, places - 1] = True
    _check_positions("edges", vertices, facets, is_on)


def _check_vertices(cell: SpaceCell, is_on: AnyArray) -> None:
    """Refuse a polytope if the positions of its vertices contradict its facets."""
    dim = cell.facets.shape[1] - 5
    _require("masks", (is_on.sum(axis=1) >= dim).all())
    _require("masks", len(np.unique(cell.masks, axis=0)) == len(cell.masks))
    _check_positions("vertices", cell.vertices, cell.facets, is_on)


def _check_positions(name: str, vertices: AnyArray, facets: AnyArray, is_on: AnyArray) -> None:
    """Refuse vertices that are provably outside a facet, or provably not on one of their own.

    Args:
        name: The name of the array, for messages.
        vertices: Points, radii, directions, radii.
        facets: Slopes, offset, offset at infinity, radius of the slopes, radius of the offset, and
            a bound on the sum of the absolute slopes.
        is_on: Whether a vertex is on a facet: a row for each vertex.
    """
    dim = facets.shape[1] - 5
    slopes, (offset, far, slope_radius, offset_radius, _) = facets[:, :dim], facets[:, dim:].T
    points, directions = vertices[:, :dim], vertices[:, dim + 1 : -1]
    radii, direction_radii = vertices[:, dim], vertices[:, -1]
    _require(name, not np.isnan(vertices).any())
    # Overflowed numbers have an infinite radius, and thus no sign below.
    for numbers, radius in (
        (points, radii),
        (directions, direction_radii),
        (slopes, slope_radius),
        (offset, offset_radius),
        (far, np.zeros_like(far)),
    ):
        _require(name, not (radius < 0.0).any() and np.isfinite(numbers[np.isfinite(radius)]).all())
    parts = (
        (directions, direction_radii, far, np.zeros_like(far)),
        (points, radii, offset, offset_radius),
    )
    # The sign of each vertex at each facet, 0 if unknown. The part at infinity decides first.
    signs = np.zeros(is_on.shape, dtype=np.int8)
    is_open = np.zeros(is_on.shape, dtype=bool)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        norm = np.abs(slopes).sum(axis=1) + dim * slope_radius
        for at, at_radii, constant, radius in parts:
            sums = np.abs(at).sum(axis=1)[:, None]
            terms = np.abs(at) @ np.abs(slopes).T + np.abs(constant)
            errors = sums * slope_radius + radius + at_radii[:, None] * norm
            # Twice the largest possible error, because the bounds are rounded as well.
            bound = 2.0 * (errors + _ROUNDING * terms) + _SMALLEST
            value = at @ slopes.T + constant
            # Comparisons with NaN are False.
            own = (value > bound).astype(np.int8) - (value < -bound)
            _require(name, not (is_on & (own != 0)).any())
            signs = np.where(is_open, signs, own)
            # The value is certainly zero only if every product is zero.
            is_open |= (terms != 0.0) | (errors != 0.0)
    # The cells on both sides of a facet store it with the same slopes, so either sign may occur.
    _require(name, not ((signs > 0).any(axis=0) & (signs < 0).any(axis=0)).any())


def _check_walls(walls: AnyArray, n_groups: IntArray, sizes: IntArray) -> None:
    _require("walls", walls.shape[1:] == (4,))
    layer, group, winner, rival = walls[walls[:, 0] >= 0].T
    _require("walls", (walls[:, 0] >= -1).all() and (layer < len(n_groups)).all())
    _require("walls", ((group >= 0) & (group < n_groups[layer])).all())
    most = sizes[(np.cumsum(n_groups) - n_groups)[layer] + group]
    for form in (winner, rival):
        _require("walls", ((form >= 0) & (form < most)).all())


def _require(name: str, is_possible: Any) -> None:
    if not is_possible:
        raise ValueError(f"the array {name!r} does not fit a search of this model")
