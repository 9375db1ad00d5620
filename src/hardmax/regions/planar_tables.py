"""A network flattened for the planar kernels, once for each network."""

from weakref import WeakKeyDictionary

import numpy as np

from hardmax._kernels.grids import grid_exponent
from hardmax._kernels.layouts import (
    AT_QUERY,
    AT_QUERY_BIAS,
    IS_HOMOGENEOUS,
    IS_TAME,
    N_FORMS,
    N_IN,
    N_LAYOUT,
    N_QUERY,
    OUTPUT_GRID,
    QUERY_BIAS_GRID,
    QUERY_GRID,
    QUERY_IS_IDENTITY,
    VALUES_GRID,
    WIDTH,
    Tables,
)
from hardmax.models.argmax_layers import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.regions.coincidences import coinciding_means, standing_classes
from hardmax.typing import AnyArray, FloatArray, IntArray

_COARSEST_GRID = 2000
_SMALLEST_TAME = 2.0**-100
_LARGEST_SHARE = 256.0

_known: WeakKeyDictionary[ArgmaxNetwork, Tables] = WeakKeyDictionary()


def network_tables(network: ArgmaxNetwork) -> Tables:
    """Flatten a network; the answer is kept as long as the network is."""
    tables = _known.get(network)
    if tables is None:
        tables = _known[network] = _flattened(network)
    return tables


def adapted(tables: Tables, scale: float, starts_homogeneous: bool) -> Tables:
    """Set the scale of a domain, and which layers see forms without offsets there.

    Args:
        tables: The network.
        scale: A bound on the coordinates, a power of two, at least 1.
        starts_homogeneous: Whether the first stream has no offsets.
    """
    layout = tables.layout.copy()
    flags = layout[:, IS_HOMOGENEOUS]
    # A layer's scores have no offsets if its own are zero and all layers before kept zero at zero.
    so_far = starts_homogeneous
    for layer in range(len(layout)):
        keeps, has = flags[layer] >= 2, flags[layer] % 2 == 1
        flags[layer] = int(so_far and has)
        so_far = so_far and has and keeps
    return tables._replace(layout=layout, scale=np.array([scale]))


class _Shelf:
    """Numbers put one after the other, with the place of each array."""

    def __init__(self) -> None:
        self.arrays: list[AnyArray] = []
        self.length = 0

    def put(self, array: AnyArray) -> int:
        place = self.length
        self.arrays.append(np.ravel(array))
        self.length += array.size
        return place

    def put_map(self, affine: AffineMap, is_read: bool = False) -> tuple[int, int]:
        """Put weight and bias; a kernel reads the weight of an identity only where it says so."""
        at_weight = 0 if affine.is_identity and not is_read else self.put(affine.weight)
        return at_weight, self.put(affine.bias)


def _flattened(network: ArgmaxNetwork) -> Tables:
    n_layers = len(network.layers)
    layout = np.zeros((n_layers + 1, N_LAYOUT), dtype=np.int64)
    numbers, indices = _Shelf(), _Shelf()
    first_group = 0
    for row, layer in zip(layout, network.layers, strict=False):
        row[:] = _layer_layout(layer, numbers, indices, first_group)
        first_group += layer.n_groups
    readout = network.readout
    # The read-out has the place of a query; the grid of an output is that of the embedding.
    row = layout[n_layers]
    row[N_IN], row[N_QUERY], row[QUERY_IS_IDENTITY] = (
        readout.dim_in,
        readout.dim_out,
        readout.is_identity,
    )
    row[AT_QUERY], row[AT_QUERY_BIAS] = numbers.put_map(readout)
    row[QUERY_GRID], row[QUERY_BIAS_GRID] = _grids(readout)
    row[OUTPUT_GRID] = min(_grids(network.embedding))
    row[IS_TAME] = _is_tame(readout)
    most_forms = int(layout[:, N_FORMS].max(initial=1))
    most_width = int(layout[:, WIDTH].max(initial=1))
    first = np.tile(np.arange(most_forms), (n_layers + 1, 1))
    gains = np.zeros((n_layers + 1, 2, most_forms))
    values = np.zeros((n_layers + 1, 2, most_forms, most_width))
    for i, layer in enumerate(network.layers):
        n_forms, width = layer.values.shape
        classes: list[list[int]] = []
        if layer.is_relu:
            first[i, : layer.n_groups] = _first_units(layer.query)
        else:
            classes = standing_classes(layer)
        for members in classes:
            first[i, members] = members[0]
        gains[i, :, :n_forms], values[i, :, :n_forms, :width] = coinciding_means(layer, classes)
        # Means may lie on a finer grid than the values.
        layout[i, VALUES_GRID] = _grid(values[i, 0])
    flat = np.concatenate([*numbers.arrays, np.zeros(1)])
    places = np.concatenate([*indices.arrays, np.zeros(1, dtype=np.int64)]).astype(np.int64)
    return Tables(layout, flat, np.abs(flat), places, first, gains, values, np.ones(1))


def _first_units(affine: AffineMap) -> IntArray:
    """Return for each unit the first with its weights and bias, or -1 less the opposite of it.

    Examples:
        >>> _first_units(AffineMap([[1.0, 2.0, 1.0, -1.0]], [3.0, 0.0, 3.0, -3.0])).tolist()
        [0, 1, 0, -1]
    """
    # Adding 0 makes -0 and 0 the same.
    columns = np.vstack([affine.weight, affine.bias]).T + 0.0
    seen: dict[bytes, int] = {}
    found = np.arange(len(columns))
    for i, (one, opposite) in enumerate(zip(columns, 0.0 - columns, strict=True)):
        if opposite.tobytes() in seen:
            found[i] = -1 - seen[opposite.tobytes()]
        found[i] = seen.get(one.tobytes(), found[i])
        seen.setdefault(one.tobytes(), i)
    return found


def _layer_layout(
    layer: ArgmaxLayer, numbers: _Shelf, indices: _Shelf, first_group: int
) -> IntArray:
    n_forms, width = layer.values.shape
    is_relu = layer.is_relu
    query, output = layer.query, layer.output
    # A ReLU layer copies its query: no matrix stands between them.
    competing = None if is_relu else AffineMap(layer.dense_slopes().T, layer.offsets)
    has_no_offsets = not (query.bias.any() or layer.offsets.any())
    keeps_zero = not (layer.values.any() or output.bias.any())
    return np.array(
        [
            layer.dim_in, query.dim_out, n_forms, layer.n_groups, output.dim_in, layer.dim_out,
            width, is_relu, layer.residual, query.is_identity, output.is_identity,
            *numbers.put_map(query, is_read=is_relu),
            *((0, 0) if competing is None else numbers.put_map(competing, is_read=True)),
            indices.put(layer.starts), indices.put(layer.slots), 0, 0,
            *numbers.put_map(output), first_group,
            *_grids(query), _grid(layer.slopes), _grid(layer.offsets),
            _grid(layer.gains), _grid(layer.values), *_grids(output),
            int(has_no_offsets) + 2 * int(keeps_zero),
            all(_is_tame(affine) for affine in (query, output, competing) if affine is not None),
            layer.dim_in == 2 and has_no_offsets, _is_dense(competing or query), _is_plain(layer),
        ],
        dtype=np.int64,
    )  # fmt: skip


def _grid(array: FloatArray) -> int:
    # A copy, because frozen arrays would be compiled for a second time.
    return int(grid_exponent(np.array(array).ravel(), _COARSEST_GRID))


def _grids(affine: AffineMap) -> tuple[int, int]:
    return 0 if affine.is_identity else _grid(affine.weight), _grid(affine.bias)


def _is_tame(affine: AffineMap) -> bool:
    if affine.is_identity:
        return True
    sizes = np.abs(affine.weight)
    return bool((sizes[sizes != 0.0] >= _SMALLEST_TAME).all())


def _is_plain(layer: ArgmaxLayer) -> bool:
    """Say whether the stream after a layer is the winning form of each group, or 0."""
    n_groups = layer.n_groups
    if layer.residual or not layer.output.is_identity or layer.output.dim_in != n_groups:
        return False
    passes_on = bool((layer.gains == 1.0).all()) and not layer.values.any()
    # Winners are kept in bytes.
    is_small = int(np.diff(layer.starts).max(initial=0)) <= np.iinfo(np.int8).max
    goes_straight = np.array_equal(layer.slots, np.arange(n_groups))
    return layer.is_relu or (passes_on and is_small and goes_straight)


def _is_dense(affine: AffineMap) -> bool:
    """Say whether no weight vanishes, and none is much larger than most."""
    if affine.is_identity:
        return False
    sizes = np.abs(affine.weight).ravel()
    middle = len(sizes) // 2
    with np.errstate(over="ignore"):
        most = _LARGEST_SHARE * np.partition(sizes, middle)[middle]
    return bool(sizes.all() and sizes.max() <= most)
