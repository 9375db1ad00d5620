"""Compiled functions in float32: the error that is found, the bound, and what is unavoidable.

For each function the largest error of the exported float32 module that random points find, in
onnxruntime and, if it is installed, in torch (points of every cell and its corners among them),
against the network in float64; the proven bound; and how far rounding the input to float32 alone
moves the function. All values are of size 1. Seeds fixed.
"""

import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.spatial import Delaunay

import hardmax.constructions as hc
from hardmax.algebra.forms import AffineForms
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
    shares = rng.dirichlet(np.full(dim + 1, 0.5), len(simplices))
    inner = np.einsum("mj,mjd->md", shares, points[simplices])
    return hc.Mesh(points, simplices, rng.normal(size=len(points))), np.vstack([inner, points])


def functions() -> Iterator[tuple[str, Any, Box, np.ndarray]]:
    """Name, function, box, points."""
    square, cube = Box([-1, -1], [1, 1]), Box([-1] * 3, [1] * 3)
    for n in (8, 100, 300):
        for seed in range(2):
            rng = np.random.default_rng(seed)
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
    for n in (10, 50, 100, 300):
        positions = np.sort(rng.uniform(-1, 1, n))
        at = np.r_[positions, rng.uniform(-1, 1, 200)][:, None]
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
        made = hc.approximate(f, box, n)
        yield (
            f"approximate {name}, {made.n_pieces}",
            made.compiled,
            box,
            rng.uniform(-1, 1, (300, dim)),
        )


def found(compiled: hc.CompiledTransformer, points: np.ndarray) -> dict[str, float]:
    """The largest error of the float32 module in each runtime."""
    import onnxruntime

    x = np.clip(points.astype(np.float32), -1, 1)[:400]
    wanted = compiled.source(x.astype(np.float64))
    with tempfile.TemporaryDirectory() as folder:
        compiled.to_onnx(f"{folder}/f.onnx", dtype="float32")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            f"{folder}/f.onnx", options, providers=["CPUExecutionProvider"]
        )
        outputs = [session.run(None, {"x": part})[0] for part in np.array_split(x, 20)]
    result = {"onnx": float(np.abs(np.concatenate(outputs) - wanted).max())}
    try:
        import torch
    except ImportError:
        return result
    module = compiled.to_torch(dtype="float32")
    with torch.no_grad():
        parts = [module(torch.from_numpy(part)).numpy() for part in np.array_split(x, 20)]
    return result | {"torch": float(np.abs(np.concatenate(parts) - wanted).max())}


def main() -> None:
    """Print the table."""
    print(f"{'function, pieces':<34}{'onnx':>9}{'torch':>9}{'bound':>9}{'input':>9}"
          f"{'compile':>9}{'bound s':>9}")  # fmt: skip
    for name, f, box, points in functions():
        start = time.process_time()
        if isinstance(f, ReluNetwork):
            compiled: hc.CompiledTransformer = hc.compile_relu(f, box)
        elif isinstance(f, hc.CompiledTransformer):
            compiled = f
        else:
            compiled = hc.compile_cpwl(f, box)
        middle = time.process_time()
        rounding = compiled.float32
        end = time.process_time()
        errors = found(compiled, points)
        print(f"{name:<34}{errors['onnx']:>9.1e}{errors.get('torch', np.nan):>9.1e}"
              f"{rounding.error:>9.1e}{rounding.conditioning:>9.1e}"
              f"{middle - start:>9.2f}{end - middle:>9.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
