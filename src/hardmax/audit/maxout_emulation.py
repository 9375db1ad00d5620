"""The abstract of [GYZ26]: transformers as maxout networks and piecewise linear functions.

Only the abstract is at hand, so the claims are those of the abstract, and what is checked is
whether a transformer that does what it says can be built: with the library's own construction
(`compile_maxout`). Weights and test points are dyadic, so hard outputs are exact.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from hardmax.audit.claims import Claim, Finding, Trial, equal_trial, upper_trial
from hardmax.audit.cubes import centred_cube, unit_cube
from hardmax.audit.instances import largest_jump, only_attention, sign_head
from hardmax.bounds import maxout_upper
from hardmax.constructions.approximation import approximate
from hardmax.constructions.compiled import CompiledTransformer
from hardmax.constructions.cpwl_compiler import compile_cpwl
from hardmax.constructions.deep_families import tent_network
from hardmax.constructions.knots import Knots
from hardmax.constructions.maxout_compiler import compile_maxout, compile_relu
from hardmax.constructions.meshes import Mesh
from hardmax.geometry.domains import Box
from hardmax.models.argmax_layers import AffineMap
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.token_transformers import TokenBlock, TokenHead, TokenTransformer
from hardmax.models.transformers import FeedForward
from hardmax.regions.engines import enumerate_regions
from hardmax.typing import FloatArray

Compiler = Callable[[Any, Box, float | None], CompiledTransformer]


def random_maxout(seed: int, widths: Sequence[int], rank: int) -> MaxoutNetwork:
    """Return a maxout network with small integer weights."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> FloatArray:
        return rng.integers(-3, 4, size=shape).astype(np.float64)

    hidden = list(pairwise(widths[:-1]))
    weights: list[Any] = [draw(after, rank, before) for before, after in hidden]
    biases: list[Any] = [draw(after, rank) for _, after in hidden]
    return MaxoutNetwork([*weights, draw(widths[-2], widths[-1])], [*biases, draw(widths[-1])])


def evaluate_by_definition(net: MaxoutNetwork, x: FloatArray) -> FloatArray:
    """Evaluate a maxout network layer by layer; exact for small dyadic numbers."""
    biases = net.biases or ()
    for units, offsets in zip(net.weights[:-1], biases[:-1], strict=True):
        pieces = [x @ unit.T + offset for unit, offset in zip(units, offsets, strict=True)]
        x = np.column_stack([piece.max(axis=1) for piece in pieces])
    return np.asarray(x @ net.weights[-1] + biases[-1])


def _dyadic_points(dim: int, n_points: int = 200) -> FloatArray:
    rng = np.random.default_rng(dim)
    return np.asarray(rng.integers(-64, 65, size=(n_points, dim)) / 64.0)


_SHAPES = (((2, 3, 1), 2), ((2, 3, 3, 1), 3), ((3, 4, 4, 2), 4), ((2, 2, 2, 2, 1), 2))


def _check_emulation(compiler: Compiler) -> Finding:
    trials = []
    for seed, (widths, rank) in enumerate(_SHAPES):
        net, dim = random_maxout(seed, widths, rank), widths[0]
        box, x = centred_cube(dim), _dyadic_points(widths[0])
        wanted = evaluate_by_definition(net, x)
        hard = compiler(net, box, None)
        where = f"widths {widths}, rank {rank}: hard transformer at 200 points of the box"
        error = float(np.abs(hard.transformer(x) - wanted).max())
        trials.append(equal_trial(where, error, 0.0))
        soft = compiler(net, box, 1e-3)
        error = float(np.abs(soft.transformer(x) - wanted).max())
        where = f"widths {widths}, rank {rank}: soft transformer asked for 1e-3"
        trials.append(upper_trial(where, error, 1e-3))
        far = 256.0 * x
        error = float(np.abs(hard.token_transformer(far) - evaluate_by_definition(net, far)).max())
        where = f"widths {widths}, rank {rank}: 256 times as far out"
        trials.append(equal_trial(where, error, 0.0, condition=False))
    kink = MaxoutNetwork([[[[1.0], [-1.0]]], [[1.0]]])
    x = np.linspace(-1.0, 1.0, 8193)[:, None]
    soft = compiler(kink, centred_cube(1), 1e-3)
    error = float(np.abs(soft.transformer(x) - np.abs(x)).max())
    trials.append(upper_trial("|x| next to its kink, asked for 1e-3", error, 1e-3))
    return Finding(
        tuple(trials),
        "Hard: off by at most "
        f"{max(t.numbers['true'] for t in trials if 'hard' in t.instance):.2g} at 200 points of "
        "the box for each network. Soft, within 1e-3 asked for: at most "
        f"{max(t.numbers['true'] for t in trials if 'asked' in t.instance):.2e}. Outside the box "
        f"the result means nothing (off by up to "
        f"{max(t.numbers['true'] for t in trials if not t.condition):.3g}): the gates are made "
        "for the box.",
        "On a bounded domain, as the scale of the gates depends on it.",
    )


def comparable(parameters: int, rank: int) -> int:
    """Return how many nonzero weights count as comparable: the logarithm names a token."""
    return 3 * max(2, (rank - 1).bit_length()) * parameters


def _check_complexity(allowed: Callable[[int, int], int]) -> Finding:
    trials = []
    for widths, rank in (
        ((2, 4, 1), 2),
        ((2, 8, 8, 1), 3),
        ((2, 16, 16, 1), 3),
        ((2, 32, 32, 1), 3),
        ((4, 16, 16, 16, 2), 2),
        ((2, 4, 4, 1), 8),
        ((1, 1, 1, 1), 2),
        ((1, 1, 1), 64),
    ):
        dim = widths[0]
        net = random_maxout(0, widths, rank)
        size = compile_maxout(net, centred_cube(dim), None).size
        blocks = {"blocks": size.blocks, "layers": len(widths) - 1, "tokens": size.tokens}
        where = f"widths {widths}, rank {rank}: nonzero weights"
        claimed = allowed(size.source_parameters, rank)
        dense = size.parameters / size.source_parameters
        trials.append(
            upper_trial(where, size.nonzeros, claimed, overhead=size.overhead, dense=dense)
        )
        holds = size.blocks <= len(widths) - 1 and size.tokens == rank
        where = f"widths {widths}, rank {rank}: a block per layer, a token per piece"
        trials.append(Trial(where, holds, numbers=blocks))
    ratios = ", ".join(f"{t.numbers['overhead']:.2f}" for t in trials[::2])
    return Finding(
        tuple(trials),
        f"Nonzero weights for each parameter of the network: {ratios}; one block for each layer "
        "and one token for each piece. The factor falls as layers get wider and grows with the "
        "logarithm of the rank where they are narrow (the last two have one unit each); stored "
        f"zeros included it is at most {max(t.numbers['dense'] for t in trials[::2]):.0f}.",
    )


def _check_relu(compiler: Compiler) -> Finding:
    rng = np.random.default_rng(5)
    trials = []
    for widths in ((2, 4, 1), (2, 5, 4, 2)):
        weights = [rng.integers(-3, 4, size=shape).astype(np.float64) for shape in pairwise(widths)]
        net, x = ReluNetwork(weights), _dyadic_points(2)
        wanted = x
        for i, weight in enumerate(weights):
            wanted = wanted @ weight if i == len(weights) - 1 else np.maximum(wanted @ weight, 0.0)
        compiled = compiler(net, centred_cube(2), None)
        error = float(np.abs(compiled.transformer(x) - wanted).max())
        where = f"ReLU network of widths {widths}: hard transformer at 200 points"
        trials.append(equal_trial(where, error, 0.0, overhead=compiled.size.overhead))
    errors = []
    for n_pieces in (4, 16, 64):
        curve = approximate(lambda x: x[:, 0] ** 2, centred_cube(1), n_pieces)
        grid = np.linspace(-1.0, 1.0, 257)[:, None]
        errors.append(float(np.abs(curve(grid)[:, 0] - grid[:, 0] ** 2).max()))
    falls = errors[0] > 10 * errors[1] > 100 * errors[2]
    where = "x^2 on [-1, 1] with 4, 16, 64 pieces: the error falls as the square"
    trials.append(Trial(where, falls, numbers={"errors": errors}))
    listed = ", ".join(f"{error:.1e}" for error in errors)
    return Finding(
        tuple(trials),
        f"ReLU networks become transformers of 2 tokens with the same output; so what ReLU "
        f"networks approximate, transformers do. x^2 within {listed} with 4, 16, 64 pieces.",
    )


def _check_piecewise_linear(compiler: Compiler) -> Finding:
    knots = np.array([-1.0, -0.5, 0.0, 0.25, 1.0])
    heights = np.array([0.0, 2.0, -1.0, -1.0, 3.0])
    x = np.linspace(-1.0, 1.0, 257)[:, None]
    line = compiler(Knots(knots, heights), centred_cube(1), None)
    corners = np.array([[i, j] for i in (-1.0, 0.0, 1.0) for j in (-1.0, 0.0, 1.0)])
    bump = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    triangles = []
    for i in (0, 1, 3, 4):  # two triangles in each of four squares
        triangles += [[i, i + 1, i + 4], [i, i + 3, i + 4]]
    plane = compiler(Mesh(corners, np.array(triangles), bump), centred_cube(2), None)
    points = _dyadic_points(2)
    u, v = points.T
    pyramid = np.maximum(0.0, 1.0 - np.max([np.abs(u), np.abs(v), np.abs(u - v)], axis=0))
    trials = []
    for name, model, at, wanted in (
        ("5 knots, neither convex nor concave", line, x, np.interp(x[:, 0], knots, heights)),
        ("a pyramid over 8 triangles", plane, points, pyramid),
    ):
        error = float(np.abs(model.transformer(at)[:, 0] - wanted).max())
        trials.append(upper_trial(f"{name}: error of the hard transformer", error, 2.0**-40))
    return Finding(
        tuple(trials),
        "Piecewise linear functions as transformers of one attention block, error at most "
        f"{max(t.numbers['true'] for t in trials):.1e}.",
    )


def _check_regions(pieces: Callable[[int], int]) -> Finding:
    trials, counts = [], []
    for depth in (1, 2, 3, 4, 6):
        model = compile_maxout(tent_network(depth), unit_cube(1), None)
        part = enumerate_regions(model.token_transformer, unit_cube(1))
        counts.append(part.n_regions)
        where = f"tent, {depth} attention blocks, width {model.size.width}: regions on [0, 1]"
        trials.append(equal_trial(where, part.n_regions, pieces(depth)))
        most = maxout_upper(1, [1] * depth, 2)
        where = f"at most, for {depth} layers of one unit of rank 2"
        trials.append(upper_trial(where, part.n_regions, most))
    return Finding(
        tuple(trials),
        f"Transformers of fixed width with 1, 2, 3, 4, 6 attention blocks have {counts} regions.",
    )


def _max_head(values: FloatArray) -> TokenTransformer:
    """Return tokens that hold x and -x, a query that is 1, and values as a map of the token."""
    state, one = np.eye(2)[:, :1], np.eye(2)[:, 1:]
    head = TokenHead(one, state, values, state.T)
    return TokenTransformer(
        np.array([[[1.0, 0.0], [-1.0, 0.0]]]),
        np.array([[0.0, 1.0], [0.0, 1.0]]),
        [TokenBlock([head], attention_residual=False)],
        AffineMap(state, np.array([0.0])),
    )


def _check_attention(operation: Callable[[FloatArray], FloatArray]) -> Finding:
    x = np.linspace(-2.0, 2.0, 65)[:, None]
    scores = np.column_stack([x, -x])
    trials = []
    for name, model, condition in (
        ("constant query, values equal to keys", _max_head(np.array([[1.0], [0.0]])), True),
        ("constant query, values other than keys", _max_head(np.array([[0.5], [1.0]])), False),
        ("keys and values -1 and 1, query x", only_attention([sign_head()]), False),
    ):
        error = float(np.abs(model(x)[:, 0] - operation(scores)).max())
        trials.append(Trial(name, error == 0.0, condition, numbers={"largest difference": error}))
    jump = largest_jump(only_attention([sign_head()]))
    return Finding(
        tuple(trials),
        "A head whose query is constant and whose values are its keys returns the largest key. In "
        f"general it returns the value at the largest score, which is no maximum: the last one "
        f"jumps by {jump} at 0.",
        "If the value is the score: constant query and W_V proportional to W_K.",
    )


def _check_feed_forward(middle: Callable[[FloatArray, FloatArray], FloatArray]) -> Finding:
    net = random_maxout(3, (2, 3, 2, 1), 3)
    model = compile_maxout(net, centred_cube(2), None).token_transformer
    first = model.blocks[0].ffn
    assert first is not None
    bent = FeedForward(np.array([[1.0, -1.0]]), None, np.array([[1.0], [1.0]]), None)
    x = _dyadic_points(2, 60)
    states = np.einsum("ni,itw->ntw", x, model.embedding_weight) + model.embedding_bias
    trials = []
    for name, ffn, rows, condition in (
        ("first feed-forward layer of a compiled network, on its tokens", first, states, True),
        ("a feed-forward layer that computes |x|", bent, x[:, None, :1], False),
    ):
        left, right = _apply(ffn, rows[::2]), _apply(ffn, rows[1::2])
        between = _apply(ffn, 0.5 * (rows[::2] + rows[1::2]))
        error = float(np.abs(between - middle(left, right)).max())
        numbers = {"largest difference": error}
        trials.append(Trial(f"{name}: midpoints", error == 0.0, condition, numbers=numbers))
    return Finding(
        tuple(trials),
        "On the tokens of a compiled network the first feed-forward layer is affine to the last "
        "bit, although it is made of ReLU units. In general it bends (by up to "
        f"{trials[1].numbers['largest difference']:.3g} between the points tried for |x|).",
        "In the construction, on the tokens that occur; ReLU layers in general are not affine.",
    )


def _apply(ffn: FeedForward, rows: FloatArray) -> FloatArray:
    assert ffn.b_in is not None
    assert ffn.b_out is not None
    return np.asarray(np.maximum(rows @ ffn.w_in + ffn.b_in, 0.0) @ ffn.w_out + ffn.b_out)


def _shifted(compiler: Compiler) -> Compiler:
    """Compile and then add to the output: a transformer of something else."""

    def wrong(source: Any, box: Box, epsilon: float | None) -> CompiledTransformer:
        if isinstance(source, Knots):
            return compiler(Knots(source.positions, source.values + 1.0), box, epsilon)
        if isinstance(source, Mesh):
            return compiler(Mesh(source.vertices, source.simplices, -source.values), box, epsilon)
        biases = list(source.biases or ())
        biases[-1] = biases[-1] + 1.0
        return compiler(type(source)(source.weights, biases), box, epsilon)

    return wrong


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "B.1",
        "GYZ26",
        "Abstract",
        "theorem",
        "Every maxout network is approximated by a transformer that can be written down.",
        content=compile_maxout,
        check=_check_emulation,
        corrupted=_shifted(compile_maxout),
    ),
    Claim(
        "B.2",
        "GYZ26",
        "Abstract",
        "theorem",
        "The transformer is of comparable complexity (tried here as: a block for each layer, and "
        "nonzero weights at most 3 max(2, log2 of the rank) times the network's parameters).",
        content=comparable,
        check=_check_complexity,
        corrupted=lambda parameters, rank: parameters,
    ),
    Claim(
        "B.3",
        "GYZ26",
        "Abstract",
        "theorem",
        "Transformers inherit universal approximation from ReLU networks at similar complexity.",
        content=compile_relu,
        check=_check_relu,
        corrupted=_shifted(compile_relu),
    ),
    Claim(
        "B.4",
        "GYZ26",
        "Abstract",
        "theorem",
        "Continuous piecewise linear functions are represented by transformers.",
        content=compile_cpwl,
        check=_check_piecewise_linear,
        corrupted=_shifted(compile_cpwl),
    ),
    Claim(
        "B.5",
        "GYZ26",
        "Abstract",
        "theorem",
        "The number of linear regions of a transformer can grow exponentially with depth.",
        content=lambda depth: 2**depth,
        check=_check_regions,
        corrupted=lambda depth: depth + 1,
    ),
    Claim(
        "B.6",
        "GYZ26",
        "Abstract, last sentence",
        "remark",
        "Self-attention layers implement maxima.",
        content=lambda scores: scores.max(axis=1),
        check=_check_attention,
        corrupted=lambda scores: scores.min(axis=1),
    ),
    Claim(
        "B.7",
        "GYZ26",
        "Abstract, last sentence",
        "remark",
        "Feed-forward layers are affine maps of each token.",
        content=lambda left, right: 0.5 * (left + right),
        check=_check_feed_forward,
        corrupted=np.maximum,
    ),
)
