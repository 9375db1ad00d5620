"""Piecewise linear functions to transformers: the certified error includes everything."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial import Delaunay

from hardmax.constructions.compilers.compiled import CompiledTransformer, compile_network
from hardmax.constructions.compilers.compiled_function_files import load_function
from hardmax.constructions.compilers.cpwl_compiler import (
    CompiledFunction,
    compile_cpwl,
    maxout_form,
)
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.functions.meshes import Mesh
from hardmax.constructions.compilers.functions.tropical_forms import DifferenceOfMaxima, LatticeForm
from hardmax.errors import (
    ArgumentError,
    DiscontinuityError,
    DtypeError,
    RecordFormatError,
    SizeLimitError,
)
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.models.networks import ReluNetwork
from hardmax.models.tensor_files import read_tensor_file, write_tensor_file
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.relu_maps import relu_network_map
from tests.reference.networks import relu_network
from tests.reference.piecewise_linear import knots_value, mesh_value

RNG = np.random.default_rng(0)
SQUARE = Box([-1, -1], [1, 1])


def random_mesh():
    corners = np.array([[-1.0, -1], [-1, 1], [1, -1], [1, 1]])
    points = np.concatenate([corners, np.random.default_rng(1).uniform(-1, 1, (12, 2))])
    values = np.random.default_rng(2).normal(size=(16, 2))
    return Mesh(points, Delaunay(points).simplices, values)


def worst_error(compiled, exact, points):
    """The largest error at some points, the function without rounding."""
    got = compiled.transformer(np.asarray(points))
    wanted = [exact(x) for x in np.asarray(points).tolist()]
    return max(
        abs(Fraction(float(g)) - w)
        for row, values in zip(got, wanted, strict=True)
        for g, w in zip(row, values, strict=True)
    )


def searched_error(compiled, exact, start, rng, n_rounds=12):
    """Climb from the worst of some points by random steps of falling size."""
    batch = start
    step = (compiled.box.high - compiled.box.low) / 8
    worst = Fraction(0)
    for _ in range(n_rounds):
        errors = [worst_error(compiled, exact, [x]) for x in batch]
        k = int(np.argmax([float(e) for e in errors]))
        worst = max(worst, errors[k])
        moves = rng.uniform(-1, 1, (8, len(step))) * step
        batch = np.clip(
            batch[k] + np.vstack([np.zeros(len(step)), moves]), compiled.box.low, compiled.box.high
        )
        step = step / 2
    return worst


def mesh_exact(mesh):
    parts = mesh.vertices.tolist(), mesh.simplices.tolist(), mesh.values.tolist()
    return lambda x: mesh_value(*parts, x)


@pytest.mark.parametrize("epsilon", [None, 0.5, 1e-2])
def test_a_mesh_is_computed_within_the_certified_error(epsilon):
    mesh = random_mesh()
    compiled = compile_cpwl(mesh, SQUARE, epsilon)
    assert isinstance(compiled, CompiledTransformer)
    assert (compiled.output_errors > compiled.form.rounding).all()
    if epsilon is not None:
        assert compiled.certified_error <= epsilon
        assert compiled.epsilon == epsilon
    else:
        assert compiled.certified_error < 1e-9
    middles = mesh.vertices[mesh.simplices].mean(axis=1)
    start = np.concatenate([mesh.vertices, middles[:8]])
    found = searched_error(compiled, mesh_exact(mesh), start, np.random.default_rng(3))
    assert found <= Fraction(compiled.certified_error)


@pytest.mark.parametrize("epsilon", [None, 1e-3])
def test_knots_are_computed_within_the_certified_error(epsilon):
    rng = np.random.default_rng(4)
    positions, values = np.sort(rng.uniform(-1, 1, 9)), rng.normal(size=9)
    compiled = compile_cpwl(Knots(positions, values, -1.0, 0.5), Box([-1], [1]), epsilon)
    start = np.concatenate([positions, rng.uniform(-1, 1, 9)])[:, None]

    def exact(x):
        return [knots_value(positions, values, -1.0, 0.5, x[0])]

    found = searched_error(compiled, exact, start, rng)
    assert found <= Fraction(compiled.certified_error)
    assert compiled.certified_error <= (1e-9 if epsilon is None else epsilon)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [None, 1e-2])
def test_a_network_comes_back_through_its_partition(dim, epsilon):
    rng = np.random.default_rng(dim)
    net = ReluNetwork(
        [rng.normal(size=(dim, 4)), rng.normal(size=(4, 3)), rng.normal(size=(3, 1))],
        [rng.normal(size=4), rng.normal(size=3), None],
    )
    box = Box([-1.0] * dim, [1.0] * dim)
    compiled = compile_cpwl(enumerate_regions(net, box), box, epsilon)
    assert compiled.size.blocks == 2
    weights, biases = [w.tolist() for w in net.weights], [b.tolist() for b in net.biases]
    found = searched_error(
        compiled,
        lambda x: relu_network(x, weights, biases)[0],
        rng.uniform(-1, 1, (12, dim)),
        rng,
    )
    assert found <= Fraction(compiled.certified_error)


def test_every_form_of_one_function_compiles_to_the_same_values():
    """The tent min(x, 1 - x), six times."""
    up, down = [1.0], [-1.0]
    forms = AffineForms([up, down], [0.0, 1.0])
    tent = relu_network_map([[[1.0, 2.0]], [[1.0], [-1.0]]], [[0.0, -1.0], [0.0]])
    net = ReluNetwork([[[1.0, 2.0]], [[1.0], [-1.0]]], [[0.0, -1.0], None])
    box = Box([0], [1])
    given = [
        Knots([0.0, 0.5, 1.0], [0.0, 0.5, 0.0]),
        Mesh([[0.0], [0.5], [1.0]], [[0, 1], [2, 1]], [0.0, 0.5, 0.0]),
        DifferenceOfMaxima(AffineForms([up], [0.0]), AffineForms([[0.0], [2.0]], [0.0, -1.0])),
        LatticeForm(forms, [[0, 1]]),
        tent,
        enumerate_regions(net, box),
    ]
    x = np.linspace(0, 1, 33)[:, None]
    for f in given:
        compiled = compile_cpwl(f, box)
        np.testing.assert_allclose(
            compiled.transformer(x).ravel(), np.minimum(x, 1 - x).ravel(), atol=1e-14
        )


def test_a_polynomial_is_one_head():
    compiled = compile_cpwl(
        TropicalPolynomial([[1.0], [-1.0], [0.0]], [0.0, 0.0, 0.5]), Box([-1], [1])
    )
    assert compiled.size.heads == 1
    assert compiled.transformer([[-1.0], [0.25]]).ravel().tolist() == [1.0, 0.5]


@pytest.mark.parametrize("epsilon", [None, 1e-2])
def test_a_mesh_can_have_three_tokens_and_many_heads(epsilon):
    mesh = random_mesh()
    compiled = compile_cpwl(mesh, SQUARE, epsilon, small_arity=True)
    assert compiled.size.tokens == 3
    assert compiled.size.heads > 50
    found = searched_error(
        compiled, mesh_exact(mesh), mesh.vertices, np.random.default_rng(5), n_rounds=2
    )
    assert found <= Fraction(compiled.certified_error)


def test_the_region_engine_finds_the_pieces_of_the_function_in_the_transformer():
    compiled = compile_cpwl(Knots([0, 1, 2, 3], [0, 1, 0.5, 2]), Box([-1], [4]))
    partition = enumerate_regions(compiled.token_transformer, Box([-1], [4]))
    assert partition.n_regions == partition.n_affine_maps == 3


def test_the_rounding_of_the_pieces_is_added_and_left_room_for():
    far = Knots(1e6 + np.array([0.0, 1.0, 3.0, 4.0]) / 3.0, [0.0, 1.0, -1.0, 0.3])
    box = Box([1e6], [1e6 + 1.0])
    hard = compile_cpwl(far, box)
    network_only = compile_network(hard.form.network, box, None, hard.form.origins)
    assert hard.form.rounding[0] > 1e-11
    assert hard.output_errors[0] >= network_only.output_errors[0] + hard.form.rounding[0]
    # Ask for as little as the compiler grants.
    epsilon = 1.5 * hard.certified_error
    soft = compile_cpwl(far, box, epsilon)
    assert soft.certified_error <= epsilon
    assert soft.certified_error + hard.form.rounding[0] > epsilon


def test_a_hard_function_is_softened_with_its_rounding(tmp_path):
    compiled = compile_cpwl(random_mesh(), SQUARE)
    soft = compiled.softened
    assert soft.epsilon is not None
    assert soft.form is compiled.form
    assert (soft.output_errors > soft.form.rounding).all()
    assert soft.softened is soft
    assert soft.certified_error <= soft.epsilon
    soft.save(tmp_path / "soft.safetensors")
    assert load_function(tmp_path / "soft.safetensors").certified_error == soft.certified_error


@pytest.mark.parametrize("epsilon", [None, 1e-3])
def test_a_saved_function_keeps_the_rounding_of_its_pieces(tmp_path, epsilon):
    compiled = compile_cpwl(random_mesh(), SQUARE, epsilon)
    compiled.save(tmp_path / "f.safetensors")
    again = load_function(tmp_path / "f.safetensors")
    assert isinstance(again, CompiledFunction)
    assert (compiled.form.rounding > 0).all()
    assert np.array_equal(again.form.rounding, compiled.form.rounding)
    assert np.array_equal(again.output_errors, compiled.output_errors)
    assert (again.epsilon, again.form.method) == (epsilon, compiled.form.method)
    x = np.random.default_rng(1).random((20, 2))
    assert np.array_equal(again.transformer(x), compiled.transformer(x))


def _saved_parts(tmp_path):
    path = tmp_path / "f.safetensors"
    compile_cpwl(random_mesh(), SQUARE, 1e-3).save(path)
    return path, *read_tensor_file(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda fields, tensors: fields.update(method="magic"), "`method` must be one of"),
        (lambda fields, tensors: fields.pop("method"), "`method` must be a str"),
        (lambda fields, tensors: tensors.pop("rounding"), "`rounding` is missing"),
        (
            lambda fields, tensors: tensors.update(rounding=-tensors["rounding"]),
            "must not be negative",
        ),
        (
            lambda fields, tensors: tensors.update(rounding=np.full(2, np.nan)),
            "`rounding` must not hold NaN",
        ),
        (lambda fields, tensors: tensors.update(rounding=np.ones(2)), "keep the error below"),
        (lambda fields, tensors: tensors.update(rounding=np.zeros(3)), "`rounding` must have"),
        (
            lambda fields, tensors: tensors.update(
                {"transformer.readout.bias": tensors["transformer.readout.bias"] + 1}
            ),
            "does not fit the network",
        ),
        (
            lambda fields, tensors: fields.update(format="hardmax.compiled/2"),
            "must state the format",
        ),
    ],
)
def test_a_changed_file_is_refused(tmp_path, change, message):
    path, fields, tensors = _saved_parts(tmp_path)
    change(fields, tensors)
    write_tensor_file(path, fields, tensors)
    with pytest.raises(RecordFormatError, match=message):
        load_function(path)


def test_what_cannot_be_compiled_is_refused_by_name():
    hat = Knots([0.0, 1.0 / 3.0, 1.0], [0.0, 1.0, 0.1])
    with pytest.raises(DtypeError, match="For a Python function use `approximate`"):
        compile_cpwl(np.sin, Box([0], [1]))
    with pytest.raises(DtypeError, match="`box` must be a bounded Box"):
        compile_cpwl(hat, WholeSpace(1))
    for bad in (0.0, -1.0):
        with pytest.raises(ArgumentError, match="`epsilon` must be above 0"):
            compile_cpwl(hat, Box([0], [1]), bad)
    with pytest.raises(ArgumentError, match=r"`epsilon` must be above .*rounding.*got 1e-18\."):
        compile_cpwl(hat, Box([0], [1]), 1e-18)
    huge = Knots([0.0, 1.0 / 3.0, 1.0], [0.0, 1e10, 1e9])
    with pytest.raises(ArgumentError, match=r"`epsilon` must be above .*rounding.*got 1e-05\."):
        compile_cpwl(huge, Box([0], [1]), 1e-5)
    with pytest.raises(ArgumentError, match=r"`small_arity` requires .* MaxoutNetwork\(3 ->"):
        compile_cpwl(
            TropicalPolynomial(np.eye(3), np.zeros(3)), Box([0] * 3, [1] * 3), small_arity=True
        )
    with pytest.raises(DiscontinuityError, match=r"jumps between 0.0 .* and 1.0"):
        compile_cpwl(
            Mesh([[0.0], [1.0], [1.0], [2.0]], [[0, 1], [2, 3]], [0, 0, 1, 1]), Box([0], [1])
        )
    pinwheel = np.array([[4.0, 0], [0, 4], [0, 0], [2, 1], [1, 2], [1, 1]])
    simplices = [[0, 1, 4], [0, 3, 4], [1, 2, 5], [1, 4, 5], [2, 0, 3], [2, 5, 3], [3, 4, 5]]
    with pytest.raises(SizeLimitError, match=r"up to \d+ pieces"):
        compile_cpwl(
            Mesh(pinwheel, simplices, [1, 2, 0, 5, 0, 7]),
            Box([0, 0], [1, 1]),
            max_pieces=2,
            method="difference",
        )


def test_the_form_says_how_it_was_made():
    assert maxout_form(Knots([0.0], [1.0], -1.0, 1.0), Box([-1], [1])).method == "convex"
    form = maxout_form(random_mesh(), SQUARE)
    assert form.method == "lifting"
    assert form.n_pieces == sum(form.network.ranks[0])
