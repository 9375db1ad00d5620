"""Sizes and indices that refer to nothing are refused by the core itself, whoever sends them."""

from array import array
from ctypes import byref
from dataclasses import replace

import numpy as np
import pytest

from hardmax._core.library import core
from hardmax._core.memory import MemoryBlock, address
from hardmax._ground.arguments import prepare_array
from hardmax.errors import ArgumentError, CoreError, DtypeError, RecordFormatError
from hardmax.geometry._joint_argmax.fans import Fan
from hardmax.geometry.convex_hulls import lifted_rows, meeting_points
from hardmax.geometry.domains import Box, Segment, Slice
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.graphs.building import GraphBuilder
from hardmax.models.graphs.graph_networks import GraphNetwork
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.regions._graphs.cell_forms import CellForms
from hardmax.regions._measures.measures import BALL, VOLUME, WITNESS
from hardmax.regions._measures.plane import measured as planar_measured
from hardmax.regions._measures.space import measured as spatial_measured
from hardmax.regions._neighbours.facets import CoreFacets
from hardmax.regions._neighbours.plane import StoredCells
from hardmax.regions._search import networks, plane, space
from hardmax.regions._search.networks import core_network
from hardmax.regions._search.plane_domains import read_planar_domain
from hardmax.regions._search.searches import CoreSearch, Task
from hardmax.regions._search.space_domains import read_spatial_domain
from hardmax.regions._stores.tasks import read_stack, stack_bytes
from hardmax.regions.cell_arrays import WallNames
from hardmax.regions.charted_domains import charted
from hardmax.regions.engine_cells import wrap_arrays
from hardmax.regions.engines import enumerate_regions
from tests.region_models import gaussian_relu, integer_maxout, integer_transformer

HOSTILE = [-(2**63), -(2**31), -2, -1, 0, 1, 3, 2**31 - 1, 2**31, 2**32 + 1, 2**63 - 1]
SQUARE, CUBE = Box([-2.0] * 2, [3.0] * 2), Box([-2.0] * 3, [3.0] * 3)
OUT_OF_RANGE = "out of range"


def packed(network):
    """Return the integers and the numbers of a network as the core gets them."""
    integers, numbers = [len(network.layers), network.embedding.dim_out], []
    for layer in network.layers:
        networks._pack_layer(layer, networks.find_identical_forms(layer), integers, numbers)
    networks._pack_map(network.readout, integers, numbers)
    return integers, np.concatenate([np.ravel(part) for part in numbers])


def size_of(integers, numbers):
    """Lay a network out if the core takes it; return how many bytes that took."""
    given, library = array("q", integers), core()
    at = given.buffer_info()[0]
    n_bytes = library.hm_network_size(at, len(given), address(numbers), len(numbers))
    if n_bytes:
        memory = MemoryBlock(n_bytes)
        library.hm_network_init(memory.address, at, address(numbers), None)
    return n_bytes


def reading_network():
    """Return a network with a group that reads some entries, and forms that coincide."""
    layer = ArgmaxLayer(
        AffineMap(np.eye(2), None), [[1.0], [1.0], [2.0], [0.5]], np.zeros(4), [0, 2, 4], [0, 1],
        np.zeros(4), np.arange(8.0).reshape(4, 2), AffineMap(np.ones((3, 2)), None), True,
        [[0], [1]],
    )  # fmt: skip
    identity = AffineMap.identity(2)
    return ArgmaxNetwork((layer,), identity, identity)


@pytest.mark.parametrize(
    "network",
    [
        gaussian_relu(1, [2, 3, 2]).network,
        integer_maxout(4, 2, [[3, 2], [2, 3]]).network,
        integer_transformer(1, 2, 2, 2, n_blocks=1).network,
        reading_network(),
    ],
)
def test_a_packed_network_with_any_other_integer_is_refused_or_harmless(network):
    integers, numbers = packed(network)
    assert size_of(integers, numbers)
    n_refused = 0
    for i, number in enumerate(integers):
        for hostile in HOSTILE:
            if hostile != number:
                n_refused += not size_of([*integers[:i], hostile, *integers[i + 1 :]], numbers)
    # Some other slots and entries exist too.
    assert n_refused > 0.8 * len(integers) * (len(HOSTILE) - 1)


def test_a_packed_network_of_another_length_is_refused():
    integers, numbers = packed(gaussian_relu(1, [2, 3, 2]).network)
    for n in range(len(integers)):
        assert not size_of(integers[:n], numbers)
    for n in range(len(numbers)):
        assert not size_of(integers, numbers[:n].copy())
    assert not size_of([*integers, 0], numbers)
    assert not size_of(integers, np.append(numbers, 1.0))


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_packed_network_has_finite_numbers(number):
    integers, numbers = packed(gaussian_relu(1, [2, 3, 2]).network)
    for i in range(len(numbers)):
        spoiled = numbers.copy()
        spoiled[i] = number
        assert not size_of(integers, spoiled)


def test_python_names_what_the_core_refuses():
    network = gaussian_relu(1, [2, 3, 2]).network
    # The constructor would refuse it: it takes vectors of another width.
    broken = ArgmaxNetwork.trusted(network.layers, network.embedding, AffineMap.identity(5))
    with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
        core_network(broken)


PLANAR = gaussian_relu(2, [2, 5, 4])
SPATIAL = integer_maxout(4, 3, [[3, 2, 2], [2, 3]])


def spoiled(column, entry, number):
    """Return a copy of an array with another number in it."""
    other = np.array(column, dtype=np.int64)
    other.flat[entry] = number
    return other


def planar_cells_with(name, entry, number):
    part = enumerate_regions(PLANAR, SQUARE)
    cells = part.cells
    if name == "codes":
        names = cells.wall_names
        names = WallNames(spoiled(names.codes, entry, number), names.layer_starts)
        return part, replace(cells, wall_names=names)
    return part, replace(cells, **{name: spoiled(getattr(cells, name), entry, number)})


@pytest.mark.parametrize(
    ("name", "entry", "number"),
    [
        ("signatures", 3, 2),
        ("signatures", -1, -1),
        ("signatures", 0, 2**31 - 1),
        ("codes", 0, 18),
        ("codes", 7, 2**31 - 1),
        ("codes", 2, -(2**31)),
        ("starts", 0, -1),
        ("starts", 1, 2**62),
        ("starts", -1, 2**40),
        ("starts", 2, 0),
    ],
)
def test_polygons_that_no_network_has_are_refused(name, entry, number):
    part, cells = planar_cells_with(name, entry, number)
    with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
        StoredCells(part.network, part.domain, cells).matching()
    if name != "starts":
        with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
            StoredCells(part.network, part.domain, cells).may_tie()


@pytest.mark.parametrize("question", [VOLUME, WITNESS, BALL])
@pytest.mark.parametrize(
    ("name", "entry", "number"),
    [
        ("signatures", 3, 2),
        ("signatures", 0, -1),
        ("codes", 1, 18),
        ("codes", 1, 2**31 - 1),
        ("starts", 0, -1),
        ("starts", 2, 0),
    ],
)
def test_polygons_that_no_network_has_are_not_measured(question, name, entry, number):
    part, cells = planar_cells_with(name, entry, number)
    with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
        planar_measured(part.network, part.domain, cells, question)


@pytest.mark.parametrize(
    ("name", "entry", "number"),
    [
        ("signatures", 3, 3),
        ("signatures", 0, -1),
        ("facets", 0, 5),
        ("facets", 0, -1),
        ("facets", 1, 3),
        ("facets", 1, 2**31 - 1),
        ("facets", 3, -1),
        ("starts", 0, 1),
        ("starts", 1, 2**62),
        ("starts", 1, -1),
        ("tie_starts", 1, 2**40),
        ("vertex_starts", 1, -1),
        ("vertex_starts", 2, 2**62),
    ],
)
def test_polytopes_that_no_network_has_are_refused(name, entry, number):
    part = enumerate_regions(SPATIAL, CUBE)
    cells, facets = part.cells, part.cells.facets
    if name == "signatures":
        cells = replace(cells, signatures=spoiled(cells.signatures, entry, number))
    elif name == "vertex_starts":
        cells = replace(cells, starts=spoiled(cells.starts, entry, number))
    else:
        column = spoiled(getattr(facets, name), entry, number)
        cells = replace(cells, facets=facets._replace(**{name: column}))
    with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
        CoreFacets(part.network, part.domain, cells)
    # Sizes of rooms that are read off columns are refused where they are too large for that.
    if "starts" not in name:
        for question in (VOLUME, WITNESS, BALL):
            with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
                spatial_measured(part.network, part.domain, cells, question)


def begun():
    """Return a network, its search on a square, and that search under way."""
    network = PLANAR.network
    search = plane.search_domain(network, read_planar_domain(charted(SQUARE, 2), 2))
    where = {"is_bounded": True, "stores": False, "whole": search.cell_struct}
    return network, search, CoreSearch(core_network(network), search.stream, search.scale, **where)


@pytest.mark.parametrize(
    "wall",
    [
        (-1, -(2**31), 0, 0),
        (-1, 2**31 - 1, 0, 0),
        (-2, 0, 0, 0),
        (2, 0, 0, 1),
        (0, 5, 0, 1),
        (0, 0, 2, 0),
        (1, 0, 0, -1),
    ],
)
def test_a_cell_on_a_wall_that_is_not_there_is_not_searched(wall):
    network, search, under = begun()
    cell = search.cell
    walls = cell.walls.copy()
    walls[1] = wall
    winners = np.zeros(network.n_groups + 1, dtype=np.int32)
    task = Task(0, False, winners, winners.astype(np.int8), cell._replace(walls=walls), False)
    with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
        under.push(task)


@pytest.mark.parametrize("winner", [-1, 2, 2**31 - 1])
@pytest.mark.parametrize("layer", [-1, 1, 2, 3])
def test_a_cell_of_winners_that_are_not_there_is_not_searched(winner, layer):
    network, search, under = begun()
    winners = np.zeros(network.n_groups + 1, dtype=np.int32)
    winners[2] = winner
    task = Task(layer, False, winners, winners.astype(np.int8), search.cell, False)
    with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
        under.push(task)


@pytest.mark.parametrize("winner", [-1, 2, 127])
def test_a_cell_of_typical_winners_that_are_not_there_is_not_searched(winner):
    network, search, under = begun()
    winners = np.zeros(network.n_groups + 1, dtype=np.int32)
    typical = winners.astype(np.int8)
    typical[2] = winner
    with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
        under.push(Task(0, True, winners, typical, search.cell, False))
    under.push(Task(0, False, winners, typical, search.cell, False))


@pytest.mark.parametrize("row", [-5, -1, 4, 2**31 - 1, -(2**31)])
def test_a_stored_task_names_rows_of_its_domain(row):
    network, search, _ = begun()
    winners = np.zeros(network.n_groups + 1, dtype=np.int32)
    task = Task(0, False, winners, winners.astype(np.int8), search.cell, False)
    assert read_stack(stack_bytes([task]), network, 2, search.cell.walls)
    walls = search.cell.walls.copy()
    walls[2, 1] = row
    content = stack_bytes([task._replace(cell=search.cell._replace(walls=walls))])
    with pytest.raises(RecordFormatError, match="walls"):
        read_stack(content, network, 2, search.cell.walls)


def small_graph():
    build = GraphBuilder()
    x = build.input((1, 3, 3))
    kernel = np.array([[[[1.0, -1.0], [0.0, 0.5]]]])
    y = build.max_pool(build.relu(build.convolve(x, kernel)), (2, 2))
    return build.finish(build.add(build.flatten(y), build.flatten(y)))


GRAPH = small_graph()


def test_the_nodes_of_a_graph_are_of_every_kind():
    assert {type(node).__name__ for node in GRAPH.nodes} == {"BlockMap", "Maxima", "SparseMap"}


@pytest.mark.parametrize("hostile", [-(2**63), -2, 2**31, 2**32 + 1, 2**63 - 1])
@pytest.mark.parametrize("name", ["taps", "starts", "columns", "first", "stride"])
def test_a_graph_reads_and_writes_slots_that_are_there(name, hostile):
    n_tried = 0
    for i, node in enumerate(GRAPH.nodes):
        if not hasattr(node, name):
            continue
        known = getattr(node, name)
        other = hostile if isinstance(known, int) else spoiled(known, known.size // 2, hostile)
        nodes = (*GRAPH.nodes[:i], replace(node, **{name: other}), *GRAPH.nodes[i + 1 :])
        with pytest.raises(ArgumentError, match=r"`nodes\[\d\]"):
            replace(GRAPH, nodes=nodes)
        n_tried += 1
    assert n_tried


def test_the_starts_of_a_graph_do_not_rise_by_wrapping():
    build = GraphBuilder()
    network = build.finish(build.relu(build.input((4,))))
    (node,) = network.nodes
    starts = node.starts.copy()
    starts[1:3] = 2**63 - 1, -2
    assert (np.diff(starts) > 0).all()
    with pytest.raises(ArgumentError, match=r"`nodes\[0\]"):
        replace(network, nodes=(replace(node, starts=starts),))


def test_the_core_refuses_the_nodes_that_python_would():
    domain = charted(Segment(np.zeros(9), np.ones(9)), 9)
    n_groups = GRAPH.n_groups
    for name, hostile in (
        ("first", GRAPH.n_slots), ("first", -1), ("n_rows", 2**40), ("n_rows", -1), ("kind", 3),
        ("low", -1), ("low", 2**62), ("n_readable", 2**62), ("n_sources", 9),
        ("first_group", 2**62), ("first_dirty", -1), ("first_dirty", 2**62),
        ("n_columns", 2**40), ("n_taps", -1), ("n_channels", 2**40), ("stride", 2**40),
    ):  # fmt: skip
        refused = []
        for i in range(len(GRAPH.nodes)):
            forms = CellForms(GRAPH, domain, 1.0)
            assert core().hm_graph_check(byref(forms.record), n_groups) == 0
            setattr(forms._records[i], name, hostile)
            try:
                core().hm_graph_check(byref(forms.record), n_groups)
            except ArgumentError:
                refused.append(i)
        assert refused, name


def misaligned(values, dtype=np.float64):
    """Return an array at an odd address."""
    values = np.ascontiguousarray(values, dtype=dtype)
    block = np.zeros(values.nbytes + 16, dtype=np.uint8)
    start = 1 if block.ctypes.data % 2 == 0 else 2
    other = block[start : start + values.nbytes].view(dtype).reshape(values.shape)
    other[...] = values
    assert not (other.size and other.flags.aligned)
    return other


def test_arrays_are_prepared_for_the_core_in_one_place():
    for dtype in (np.float64, np.int64, np.int32):
        ready = prepare_array(misaligned([[1, 2], [3, 4]], dtype).T, dtype)
        assert ready.flags.aligned
        assert ready.flags.c_contiguous
        assert ready.tolist() == [[1, 3], [2, 4]]
    kept = np.arange(4.0)
    assert prepare_array(kept) is kept
    for number, dtype in ((2**31, np.int32), (-(2**31) - 1, np.int32), (256, np.uint8)):
        with pytest.raises(DtypeError, match=f"`codes` .*{np.dtype(dtype)}; got {number}"):
            prepare_array(np.array([0, number]), dtype, "codes")
    with pytest.raises(CoreError, match="not aligned"):
        address(misaligned([1.0]))


def with_misaligned_arrays(network):
    """Return a graph network whose arrays all lie at odd addresses."""
    nodes = []
    for node in network.nodes:
        arrays = {k: v for k, v in vars(node).items() if isinstance(v, np.ndarray)}
        nodes.append(replace(node, **{k: misaligned(v, v.dtype) for k, v in arrays.items()}))
    outputs = misaligned(network.outputs, np.int64)
    return GraphNetwork(
        network.input_shape, network.output_shape, tuple(nodes), network.n_slots, outputs
    )


DIAGONAL = Segment(np.full(9, -1.0), np.full(9, 2.0))
TILTED = Slice(np.zeros(9), np.eye(9)[:2] + 0.1, Box([-1.0, -1.0], [1.0, 1.0]))


@pytest.mark.parametrize("domain", [DIAGONAL, TILTED])
def test_graphs_at_odd_addresses_have_the_same_cells(domain):
    expected, found = (
        enumerate_regions(net, domain) for net in (GRAPH, with_misaligned_arrays(GRAPH))
    )
    assert found.n_cells == expected.n_cells
    assert found.n_affine_maps == expected.n_affine_maps


@pytest.mark.parametrize("domain", [SQUARE, Segment([-1.0, 0.5], [2.0, 1.0])])
def test_models_and_points_at_odd_addresses_have_the_same_cells(domain):
    weights, biases = PLANAR.weights, PLANAR.biases
    other = ReluNetwork([misaligned(w) for w in weights], [misaligned(b) for b in biases])
    expected, found = (enumerate_regions(net, domain) for net in (PLANAR, other))
    assert np.array_equal(found.signatures, expected.signatures)
    points = np.random.default_rng(0).random((40, expected.domain.dim))
    assert np.array_equal(found.locate(misaligned(points)), expected.locate(points))
    inputs = np.random.default_rng(1).normal(size=(40, 2))
    assert np.array_equal(other(misaligned(inputs)), PLANAR(inputs))


def test_stored_cells_at_odd_addresses_are_measured_and_matched():
    for model, domain in ((PLANAR, SQUARE), (SPATIAL, CUBE)):
        part = enumerate_regions(model, domain)
        cells = part.cells
        arrays = {
            k: misaligned(getattr(cells, k), kind)
            for k, kind in (
                ("vertices", np.float64),
                ("starts", np.int64),
                ("signatures", np.int32),
            )
        }
        if cells.wall_names is not None:
            codes = misaligned(cells.wall_names.codes, np.int32)
            arrays["wall_names"] = cells.wall_names._replace(codes=codes)
        if cells.facets is not None:
            arrays["facets"] = type(cells.facets)(*(misaligned(c, c.dtype) for c in cells.facets))
        arrays = replace(cells, **arrays)
        found = wrap_arrays(part.engine, part.network, part.domain, arrays)
        other = replace(part, found=found)
        assert np.array_equal(other.volumes, part.volumes)
        assert np.array_equal(other.neighbours.pairs, part.neighbours.pairs)


def test_corners_of_hulls_are_points():
    lifted = lifted_rows(np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 5]], dtype=object))
    assert np.isfinite(meeting_points(lifted, np.array([[0, 1, 2]]))).all()
    for corner in (-1, 4, 2**31 - 1):
        with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
            meeting_points(lifted, np.array([[0, 1, corner]]))
    with pytest.raises(DtypeError, match="fit int32"):
        meeting_points(lifted, np.array([[0, 1, 2**32]]))


@pytest.mark.parametrize("is_upper", [False, True])
def test_corners_of_planar_hulls_are_points(is_upper):
    points = np.array([[0.0, 0.0], [1.0, 3.0], [2.0, 0.0]])
    order, scratch = np.arange(3, dtype=np.int32), np.empty((2, 4), dtype=np.int32)

    def n_corners(n):
        found = np.zeros(1, dtype=np.int32)
        core().hm_planar_hull(
            n, address(points), is_upper, *map(address, (order, scratch[0], scratch[1], found))
        )
        return int(found[0])

    assert n_corners(3) == 3
    for n in (0, -1):
        with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
            n_corners(n)
    for place in (-1, 3, 2**31 - 1, -(2**31)):
        order[1] = place
        with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
            n_corners(3)


def test_a_chain_has_forms_of_its_group():
    network = MaxoutNetwork([[[[1.0], [2.0], [3.0]]] * 2, [[1.0], [1.0]]]).network
    domain = read_spatial_domain(Segment([-1.0], [1.0]), 1)
    start = space.search_domain(network, domain)
    search = CoreSearch(
        core_network(network), start.stream, start.scale,
        is_bounded=True, stores=False, whole=start.cell_struct,
    )  # fmt: skip
    search.set_chain(0, 1, np.array([4, 3]))
    assert search.candidates(0, 1) == [4, 3]
    assert search.has_chain(0, 1)
    assert not search.has_chain(0, 0)
    for layer, group, forms in [
        (0, 0, [3]), (0, 1, [2]), (0, 1, [6]), (0, 1, [3, 4, 5, 3]), (0, 2, [3]),
        (0, -1, [0]), (1, 0, [0]), (-1, 0, [0]), (2**31 - 1, 0, [0]), (0, 0, [-1]),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
            search.set_chain(layer, group, np.array(forms))
    with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
        begun()[2].set_chain(0, 0, np.array([0]))


def test_tuples_have_a_vertex_of_every_head():
    rows = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    fan = Fan(
        rows, rows, np.array([[1.0], [0.0], [1.0], [0.0]]), np.array([0, 2, 4]),
        np.array([0, 1, 2, 3, 4]), np.array([1, 0, 3, 2]), np.array([1, 0, 3, 2]),
    )  # fmt: skip
    direction, line = np.ones((1, 1)), np.arange(4)
    assert fan.check(np.array([[0, 2]]), direction)[0].tolist() == [True]
    for leaf in ([0, 1], [-1, 2], [0, 4], [2**63 - 1, 2]):
        with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
            fan.check(np.array([leaf]), direction)
        with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
            fan.facets(line, np.array([leaf]), np.array([0]), np.array([0]))
    for wall in (-1, 4):
        with pytest.raises(ArgumentError, match=OUT_OF_RANGE):
            fan.facets(line, np.array([[0, 2]]), np.array([0]), np.array([wall]))
