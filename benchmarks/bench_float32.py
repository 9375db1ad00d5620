"""Compiled functions in float32: the measured error, its bound, and the unavoidable error.

Points lie inside cells, on their walls and close to their corners. With `--full`, there are larger
meshes and more knots.
"""

import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.spatial import Delaunay

import hardmax.constructions as hc
from benchmarks.measuring import cpu_seconds
from benchmarks.tables import Table
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box
from hardmax.models.networks import ReluNetwork
from hardmax.regions.engines import enumerate_regions

CORNERS = {2: [[-1, -1], [1, -1], [-1, 1], [1, 1]]}
CORNERS[3] = [[*corner, z] for corner in CORNERS[2] for z in (-1, 1)]


def _mesh(points: np.ndarray, rng: np.random.Generator) -> tuple[hc.Mesh, np.ndarray]:
    dim = points.shape[1]
    points = np.vstack([points, CORNERS[dim]])
    simplices = Delaunay(points).simplices
    edges = points[simplices[:, 1:]] - points[simplices[:, :1]]
    simplices = simplices[np.abs(np.linalg.det(edges)) > 0]
    values = rng.normal(size=len(points))
    # A smaller parameter gives points closer to walls and corners.
    inner = [
        np.einsum(
            "mj,mjd->md", rng.dirichlet(np.full(dim + 1, a), len(simplices)), points[simplices]
        )
        for a in (1.0, 0.3, 0.1, 0.03)
    ]
    at = rng.permutation(np.vstack([*inner, points]))
    return hc.Mesh(points, simplices, values), at


def list_functions() -> Iterator[tuple[str, Any, Box, np.ndarray]]:
    """Return names, functions, boxes and points."""
    square, cube = Box([-1, -1], [1, 1]), Box([-1] * 3, [1] * 3)
    is_full = "--full" in sys.argv
    for n in (8, 100, 300) if is_full else (8, 100):
        rng = np.random.default_rng(0)
        mesh, at = _mesh(rng.uniform(-1, 1, (n, 2)), rng)
        yield f"uniform mesh, {len(mesh.simplices)}", mesh, square, at
    rng = np.random.default_rng(0)
    centres = rng.uniform(-0.8, 0.8, (4, 2))
    clustered = centres[rng.integers(0, 4, 100)] + 0.02 * rng.normal(size=(100, 2))
    mesh, at = _mesh(np.clip(clustered, -1, 1), rng)
    yield f"clustered mesh, {len(mesh.simplices)}", mesh, square, at
    graded = np.sign(rng.normal(size=(100, 2))) * 10.0 ** -rng.uniform(0, 3, (100, 2))
    mesh, at = _mesh(graded, rng)
    yield f"graded mesh, {len(mesh.simplices)}", mesh, square, at
    side = np.linspace(-1, 1, 11)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    simplices = Delaunay(grid).simplices
    values = rng.normal(size=len(grid))
    at = np.vstack([grid, rng.uniform(-1, 1, (200, 2))])
    yield f"grid, {len(simplices)}", hc.Mesh(grid, simplices, values), square, at
    thin = np.column_stack([rng.uniform(-1, 1, 60), 1e-3 * rng.normal(size=60)])
    mesh, at = _mesh(thin, rng)
    yield f"slivers, {len(mesh.simplices)}", mesh, square, at
    for n in (12, 40):
        mesh, at = _mesh(rng.uniform(-1, 1, (n, 3)), rng)
        yield f"3-D mesh, {len(mesh.simplices)}", mesh, cube, at
    for n in (10, 50, 100, 300, 1000) if is_full else (10, 100):
        positions = np.sort(rng.uniform(-1, 1, n))
        at = np.r_[positions, rng.uniform(-1, 1, 200)]
        closest = np.argsort(np.diff(positions))[:40]
        steps = rng.random((8, len(closest))) * np.diff(positions)[closest]
        at = rng.permutation(np.r_[at, (positions[closest] + steps).ravel()])[:, None]
        yield f"random knots, {n}", hc.Knots(positions, rng.normal(size=n)), Box([-1], [1]), at
    at = rng.uniform(-1, 1, (300, 2))
    above, below = (AffineForms(rng.normal(size=(40, 2)), rng.normal(size=40)) for _ in "ab")
    yield "difference of maxima, 80", hc.DifferenceOfMaxima(above, below), square, at
    sets = [rng.choice(40, 6, replace=False).tolist() for _ in range(12)]
    yield "lattice form, 12 of 6", hc.LatticeForm(above, sets), square, at
    for widths in ((2, 8, 1), (2, 6, 6, 1), (2, 8, 8, 8, 1)):
        sizes = list(pairwise(widths))
        weights = [rng.normal(size=s) * (2 / s[0]) ** 0.5 for s in sizes]
        net = ReluNetwork(weights, [0.3 * rng.normal(size=s[1]) for s in sizes])
        part = enumerate_regions(net, square)
        yield f"partition of relu {widths}, {part.n_cells}", part, square, at
        yield f"relu {widths}", net, square, at
    for name, f, dim, n in (
        ("exp(-4|x|^2)", lambda x: np.exp(-4 * (x**2).sum(axis=1)), 2, 400),
        ("sin(9x)cos(7y)", lambda x: np.sin(9 * x[:, 0]) * np.cos(7 * x[:, 1]), 2, 400),
        ("|x|^(1/2)", lambda x: np.sqrt(np.abs(x[:, 0])), 1, 100),
        ("xyz", lambda x: x.prod(axis=1), 3, 200),
    ):
        box = Box([-1] * dim, [1] * dim)
        result = hc.approximate(f, box, n)
        yield (
            f"approximate {name}, {result.n_pieces}",
            result.compiled,
            box,
            rng.uniform(-1, 1, (300, dim)),
        )


def evaluate_exactly(f: Any, compiled: hc.CompiledTransformer, x: np.ndarray) -> np.ndarray:
    """Evaluate a function by its definition where that is simple; NaN outside a mesh."""
    if isinstance(f, hc.Knots):
        slopes = np.diff(f.values[:, 0]) / np.diff(f.positions)
        k = np.clip(np.searchsorted(f.positions, x[:, 0]) - 1, 0, len(slopes) - 1)
        return (f.values[k, 0] + slopes[k] * (x[:, 0] - f.positions[k]))[:, None]
    if not isinstance(f, hc.Mesh):
        return compiled.source(x)
    corners = np.dstack([f.vertices[f.simplices], np.ones(f.simplices.shape)])
    weights = np.einsum(
        "nj,mjk->mnk", np.column_stack([x, np.ones(len(x))]), np.linalg.inv(corners)
    )
    inside = weights.min(axis=2)
    best = inside.argmax(axis=0)
    rows = np.arange(len(x))
    values = (weights[best, rows] * f.values[f.simplices[best], 0]).sum(axis=1)
    return np.where(inside[best, rows] > -1e-9, values, np.nan)[:, None]


def measure_errors(compiled: hc.CompiledTransformer, f: Any, x: np.ndarray) -> dict[str, float]:
    """Return the largest error of the float32 module in each runtime."""
    import onnxruntime

    wanted = evaluate_exactly(f, compiled, x.astype(np.float64))
    with tempfile.TemporaryDirectory() as folder:
        compiled.to_onnx(f"{folder}/f.onnx", dtype="float32")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            f"{folder}/f.onnx", options, providers=["CPUExecutionProvider"]
        )
        outputs = [session.run(None, {"x": part})[0] for part in np.array_split(x, 20)]
    result = {"onnx": float(np.nanmax(np.abs(np.concatenate(outputs) - wanted)))}
    try:
        import torch
    except ImportError:
        return result
    module = compiled.to_torch(dtype="float32")
    with torch.no_grad():
        parts = [module(torch.from_numpy(part)).numpy() for part in np.array_split(x, 20)]
    return result | {"torch": float(np.nanmax(np.abs(np.concatenate(parts) - wanted)))}


def compile_case(f: Any, box: Box, epsilon: float | None) -> hc.CompiledTransformer:
    """Compile a function or a network."""
    if isinstance(f, hc.CompiledTransformer):
        return f
    return (hc.compile_relu if isinstance(f, ReluNetwork) else hc.compile_cpwl)(f, box, epsilon)


def measure_case(name: str, f: Any, box: Box, points: np.ndarray) -> list[object]:
    """Compile a function, and measure its errors relative to its largest value."""
    compiled, making = cpu_seconds(lambda: compile_case(f, box, None))
    rounding, bounding = cpu_seconds(lambda: compiled.float32)
    x = np.clip(points.astype(np.float32), -1, 1)[:400]
    errors = measure_errors(compiled, f, x)
    scale = float(np.nanmax(np.abs(evaluate_exactly(f, compiled, x.astype(np.float64)))))
    is_compiled = compiled is f
    numbers = [errors["onnx"], errors.get("torch"), rounding.error, None, None]
    if not is_compiled:
        soft = compile_case(f, box, 1e-5 * scale)
        numbers[3:] = max(measure_errors(soft, f, x).values()), soft.float32_error
    parts = (one and f"{one / scale:.1e}" for one in (*numbers, rounding.conditioning))
    method = getattr(getattr(compiled, "form", None), "method", "network")
    return [name, method, *parts, None if is_compiled else making, bounding]


def tables() -> Iterator[Table]:
    """Yield errors and their bounds."""
    words = "onnxruntime", "torch", "bound", "soft", "bound", "input", "compile, s", "bound, s"
    yield Table(
        "Compiled functions in float32",
        ("function, pieces", "as", *words),
        [measure_case(*one) for one in list_functions()],
        """The table gives the largest error of the exported float32 module at 400 points, in
        onnxruntime and in torch, and the proven bound; the same for the soft transformer with an
        error of 1e-5; and the change of the function if only the input is rounded to float32. All
        errors are relative to the largest value of the function. The last two columns are the CPU
        seconds for compiling the function and for computing the bound.""",
    )
