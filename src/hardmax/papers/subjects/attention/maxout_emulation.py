"""The abstract of [GYZ26]: transformers as maxout networks and piecewise linear functions.

Only the abstract is available, so all claims are taken from it. Each check tests whether a
transformer as described can be built, with the library's own construction (`compile_maxout`).
Weights and test points are dyadic, so hard outputs are exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import count, pairwise
from typing import Any

import numpy as np

from hardmax.bounds import maxout_upper
from hardmax.constructions.compilers.compiled import CompiledTransformer, TransformerSize
from hardmax.constructions.compilers.cpwl_compiler import compile_cpwl
from hardmax.constructions.compilers.functions.approximation import approximate
from hardmax.constructions.compilers.functions.knots import Knots
from hardmax.constructions.compilers.functions.meshes import Mesh
from hardmax.constructions.compilers.maxout_compiler import compile_maxout, compile_relu
from hardmax.constructions.families.deep_families import tent_network
from hardmax.geometry.domains import Box
from hardmax.models.argmax import AffineMap
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.tokens.transformers import TokenBlock, TokenHead, TokenTransformer
from hardmax.models.transformers import FeedForward
from hardmax.papers.claims import Claim, Finding, Trial, equal_trial, upper_trial
from hardmax.papers.subjects.counting.cubes import centred_cube, unit_cube
from hardmax.papers.subjects.instances import attention_only, largest_jump, sign_head
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


@dataclass(frozen=True)
class Emulation:
    """A compiler from networks to transformers, and the inputs for which it claims an error."""

    compiler: Compiler
    everywhere: bool


def _check_emulation(content: Emulation) -> Finding:
    trials, compiler = [], content.compiler
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
        where = f"widths {widths}, rank {rank}: soft transformer compiled for 1e-3"
        trials.append(upper_trial(where, error, 1e-3))
        far = 256.0 * x
        error = float(np.abs(hard.token_transformer(far) - evaluate_by_definition(net, far)).max())
        where = f"widths {widths}, rank {rank}: 256 times as far out"
        right = error == 0.0 if content.everywhere else None
        trials.append(Trial(where, right, condition=False, numbers={"true": error}))
    kink = MaxoutNetwork([[[[1.0], [-1.0]]], [[1.0]]])
    x = np.linspace(-1.0, 1.0, 8193)[:, None]
    soft = compiler(kink, centred_cube(1), 1e-3)
    error = float(np.abs(soft.transformer(x) - np.abs(x)).max())
    trials.append(upper_trial("|x| next to its kink, compiled for 1e-3", error, 1e-3))
    return Finding(
        tuple(trials),
        "The hard transformers differ from the network by at most "
        f"{max(t.numbers['true'] for t in trials if 'hard' in t.instance):.2g} at 200 points of "
        "the box for each network. The soft transformers, compiled for an error of 1e-3, differ "
        f"by at most {max(t.numbers['true'] for t in trials if 'compiled' in t.instance):.2e}. "
        "Outside the box the output is meaningless (off by up to "
        f"{max(t.numbers['true'] for t in trials if not t.condition):.3g}), because the gates are "
        "scaled for the box.",
        "True on a bounded domain; the scale of the gates depends on the domain.",
    )


def dense_maxout(widths: Sequence[int], rank: int) -> MaxoutNetwork:
    """Return a maxout network without zero weights in which all pieces are different."""
    numbers = count(1)

    def draw(*shape: int) -> FloatArray:
        size = int(np.prod(shape))
        drawn = [(-1.0) ** k * next(numbers) for k in range(size)]
        return np.array(drawn, dtype=np.float64).reshape(shape)

    hidden = list(pairwise(widths[:-1]))
    weights: list[Any] = [draw(after, rank, before) / 64.0 for before, after in hidden]
    biases: list[Any] = [draw(after, rank) / 64.0 for _, after in hidden]
    return MaxoutNetwork([*weights, draw(widths[-2], widths[-1])], [*biases, draw(widths[-1])])


def count_parameters(widths: Sequence[int], rank: int) -> int:
    """Count the parameters of a maxout network all of whose units have this rank."""
    hidden = sum(rank * after * (before + 1) for before, after in pairwise(widths[:-1]))
    return int(hidden + widths[-1] * (widths[-2] + 1))


def max_nonzeros(widths: Sequence[int], rank: int) -> int:
    r"""Return the number of nonzero weights of the compiled transformer of a network without zeros.

    Let $n_0, w_1, \dots, w_L, n_o$ be the widths ($L \ge 1$), $k$ the rank, $\delta = \lceil \log_2
    k\rceil$, and $\gamma$ the ones in a gate (`token_codes`): 0 for $k = 1$, 1 for $2 \le k \le 6$,
    $\delta$ for $k \ge 7$. A piece of layer $l$ is a pair of units with $w_{l-1} + \gamma$ weights,
    an offset and an output each; a head has 4 weights; clearing a coordinate takes 4, and there are
    $n_0$ of them before layer 1 and $2w_l$ after layer $l < L$; the embedding has $k n_0$, the
    positions $\pi = k^2$ for $k \le 6$ and $k(\delta + 1)$ for $k \ge 7$, the readout $n_o(w_L+1)$:

    $$\sum_{l=1}^{L} \big(2kw_l(w_{l-1} + \gamma + 2) + 4w_l\big) + 8\sum_{l<L} w_l
      + (4 + k)n_0 + \pi + n_o(w_L + 1).$$

    A network with zeros has at most as many: a zero weight saves its pair, and a piece without
    slope hangs on a unit with at most $2 + \gamma$ weights in place of its pair.

    Examples:
        >>> max_nonzeros((1, 1, 1, 1, 1, 1), 2), count_parameters((1, 1, 1, 1, 1, 1), 2)
        (116, 18)
    """
    digits = (rank - 1).bit_length()
    gate = 0 if rank == 1 else 1 if rank <= 6 else digits
    positions = rank**2 if rank <= 6 else rank * (digits + 1)
    first, hidden, last = widths[0], widths[1:-1], widths[-1]
    pieces = sum(
        2 * rank * after * (before + gate + 2) + 4 * after
        for before, after in pairwise(widths[:-1])
    )
    rest = (4 + rank) * first + positions + last * (hidden[-1] + 1)
    return int(pieces + 8 * sum(hidden[:-1]) + rest)


def nonzero_factor(rank: int) -> Fraction:
    r"""Return the factor $C = \max(9, 4 + \frac32 \lceil\log_2 k\rceil)$ of the nonzero weights.

    *Theorem.* For every shape the transformer has at most $C$ nonzero weights for each parameter of
    a maxout network of rank $k$, and no smaller factor will do for $k = 1$ or, in the leading term,
    for large $k$.

    *Proof.* With the names of `max_nonzeros`, $P_l = k w_l(w_{l-1} + 1)$ is the number of
    parameters of layer $l$, and $w_{l-1} + 1 \ge 2$, so that with the clearing after it

    $$2kw_l(w_{l-1} + \gamma + 2) + 12w_l = 2P_l + 2kw_l(\gamma + 1) + 12w_l
      \le \big(\gamma + 3 + \tfrac6k\big) P_l \le C P_l$$

    (9 for $k = 1$, at most 7 for $2 \le k \le 6$, and $\delta + 3 + \frac6k < 4 + \frac32\delta$
    for $k \ge 7$). That is enough for all layers but the first, and counts $8w_L \ge 8$ too much.
    With $n = n_0$, $w = w_1$ and $(C - 1)n_o(w_L + 1) \ge 2(C - 1)$ it remains to see that

    $$f(w, n) = kw\big[(C - 2)(n + 1) - 2(\gamma + 1)\big] - 12w - (4 + k)n - \pi + 2C + 6 \ge 0 .$$

    In $w$ it does not decrease: the slope is at least $2k(C - \gamma - 3) - 12 \ge 0$. For $w = 1$
    the slope in $n$ is $k(C - 3) - 4 > 0$. And $f(1, 1) = k(2C - 2\gamma - 7) - 10 - \pi + 2C$ is
    18 for $k = 1$; at least $9k - k^2 + 8 > 0$ for $2 \le k \le 6$; and at least $2C - 10 > 0$ for
    $k \ge 7$, where $2C \ge 8 + 3\delta$. A chain of units of rank 1 has $18L$ nonzeros and
    $2L + 2$ parameters; one unit of rank $k = 2^\delta \ge 8$ on a line $k(3\delta + 8) + 10$ and
    $2k + 2$. $\square$

    Examples:
        >>> nonzero_factor(1), nonzero_factor(2), nonzero_factor(64)
        (Fraction(9, 1), Fraction(9, 1), Fraction(13, 1))
    """
    return max(Fraction(9), 4 + Fraction(3, 2) * (rank - 1).bit_length())


_CHAINS = tuple(((1,) * n, rank) for n in (3, 4, 12) for rank in (1, 2, 6, 7, 64))
_LAYERED = tuple(
    (widths, rank)
    for widths in (
        (2, 4, 1),
        (2, 8, 8, 1),
        (4, 16, 16, 16, 2),
        (1, 9, 1, 9, 1),
        (9, 1, 9, 1, 9),
        (30, 1, 1),
        (1, 1, 30),
    )
    for rank in (1, 2, 3, 7)
)


@cache
def _compiled_size(widths: tuple[int, ...], rank: int) -> TransformerSize:
    return compile_maxout(dense_maxout(widths, rank), centred_cube(widths[0]), None).size


def _check_complexity(factor: Callable[[int], Fraction | int]) -> Finding:
    trials, overheads = [], []
    for widths, rank in _CHAINS + _LAYERED:
        size = _compiled_size(widths, rank)
        where = f"widths {_format_widths(widths)}, rank {rank}"
        right = size.nonzeros == max_nonzeros(widths, rank)
        right &= size.source_parameters == count_parameters(widths, rank)
        right &= size.blocks <= len(widths) - 1 and size.tokens == rank
        numbers = {"blocks": size.blocks, "layers": len(widths) - 1, "tokens": size.tokens}
        trials.append(
            Trial(f"{where}: a block per layer, a token per piece", right, numbers=numbers)
        )
        claimed = factor(rank) * size.source_parameters
        overheads.append((size.overhead, where))
        trials.append(upper_trial(f"{where}: nonzero weights", size.nonzeros, claimed))
    for seed, (widths, rank) in enumerate(_SHAPES):
        size = compile_maxout(random_maxout(seed, widths, rank), centred_cube(widths[0]), None).size
        where = f"widths {widths}, rank {rank}: nonzero weights of a network with zeros"
        trials.append(upper_trial(where, size.nonzeros, max_nonzeros(widths, rank)))
    for widths, rank in (((1,) * 4001, 1), ((1, 1, 1), 2**60)):
        ratio = Fraction(max_nonzeros(widths, rank), count_parameters(widths, rank))
        shape = f"widths {_format_widths(widths)}, rank {rank}"
        where = f"{shape}: nonzero weights per parameter, by formula"
        # The factor is a supremum over all shapes: approached, not attained.
        near = ratio > Fraction(999, 1000) * factor(rank)
        trials.append(
            Trial(where, ratio <= factor(rank), tight=near, numbers={"ratio": float(ratio)})
        )
    worst, where = max(overheads)
    return Finding(
        tuple(trials),
        f"For {len(overheads)} shapes without zero weights, the transformer has one block for "
        f"each layer, one token for each piece, and up to {worst:.2f} nonzero weights for each "
        f"parameter of the network ({where}). This factor decreases as layers get wider; it is "
        "largest for single units.",
    )


def _format_widths(widths: Sequence[int]) -> str:
    return str(tuple(widths)) if len(widths) < 9 else f"(1, ..., 1), {len(widths)} of them"


def count_dense_numbers(widths: Sequence[int], rank: int) -> int:
    r"""Return the number of entries that the compiled transformer stores, including zeros.

    With the names of `max_nonzeros`, the width is $D = S + Z + q + 1$, with the state
    $S = \max(n_0, w_1, \dots)$, the work slots $Z$ of odd and even layers, and the code
    $q = \min(k, 2\delta)$. It stores $(n_0 + 1)kD$ numbers for embedding and positions, $4D$ for a
    head, $2D d_{ff} + d_{ff} + D$ before a layer, $d_{ff} = 2kw_l + 2s_l$ with $s_1 = n_0$, $s_l =
    2w_{l-1}$ coordinates to clear, and $(D + 1)n_o$ for the readout.

    Examples:
        >>> count_dense_numbers((2, 4, 1), 2)
        725
    """
    digits = (rank - 1).bit_length()
    first, hidden, last = widths[0], list(widths[1:-1]), widths[-1]
    work = max(hidden[::2]) + max(hidden[1::2], default=0)
    code = 0 if rank == 1 else min(rank, 2 * digits)
    width = max(first, *hidden) + work + code + 1
    total = (first + 1) * rank * width + (width + 1) * last
    clear = first
    for units in hidden:
        d_ff = 2 * rank * units + 2 * clear
        total += 4 * width * units + (2 * width + 1) * d_ff + width
        clear = 2 * units
    return int(total)


def _check_dense(bound: Callable[[Sequence[int], int], int]) -> Finding:
    trials, ratios = [], []
    for widths, rank in (
        ((2, 8, 8, 1), 3),
        ((2, 32, 32, 1), 3),
        ((4, 16, 16, 16, 2), 2),
        ((2, 4, 4, 1), 8),
        ((1, 1, 1, 1, 1, 1), 2),
        ((1, 64, *[1] * 40, 1), 2),
    ):
        size = _compiled_size(widths, rank)
        ratios.append(size.parameters / size.source_parameters)
        where = f"widths {_format_long_widths(widths)}, rank {rank}: stored numbers"
        claimed = bound(widths, rank)
        trials.append(upper_trial(where, size.parameters, claimed, extremal=True))
    listed = ", ".join(f"{ratio:.0f}" for ratio in ratios)
    return Finding(
        tuple(trials),
        f"Stored densely, zeros included, the transformers have {listed} numbers for each "
        "parameter of the network. No factor is enough for all shapes: a single wide layer makes "
        "every token wide, which enlarges the matrices of every narrow layer.",
        "The number is the width D of a token times 2 d_ff in every block, plus the numbers of "
        "the heads, embedding and readout (an exact formula). It is a constant factor only for "
        "layers of equal width.",
    )


def _format_long_widths(widths: Sequence[int]) -> str:
    return str(tuple(widths)) if len(widths) < 9 else f"({widths[0]}, {widths[1]}, 1, ..., 1)"


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
    where = "x^2 on [-1, 1] with 4, 16, 64 pieces: the error decreases quadratically"
    trials.append(Trial(where, falls, numbers={"errors": errors}))
    listed = ", ".join(f"{error:.1e}" for error in errors)
    return Finding(
        tuple(trials),
        "ReLU networks become transformers of 2 tokens with the same output, so transformers "
        "approximate whatever ReLU networks approximate. With 4, 16, 64 pieces, x^2 is "
        f"approximated to within {listed}.",
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
        "Piecewise linear functions become transformers with one attention block; the error is at "
        f"most {max(t.numbers['true'] for t in trials):.1e}.",
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
    """Return tokens that hold x and -x, a constant query 1, and values linear in the token."""
    state, one = np.eye(2)[:, :1], np.eye(2)[:, 1:]
    head = TokenHead(one, state, values, state.T)
    return TokenTransformer(
        np.array([[[1.0, 0.0], [-1.0, 0.0]]]),
        np.array([[0.0, 1.0], [0.0, 1.0]]),
        [TokenBlock([head], attention_residual=False)],
        AffineMap(state, np.array([0.0])),
    )


def _largest_score(scores: FloatArray, values: FloatArray) -> FloatArray:
    return np.asarray(scores.max(axis=1))


def _value_at_largest_score(scores: FloatArray, values: FloatArray) -> FloatArray:
    """Return the value of the winner, or the mean of the values on a tie."""
    best = scores == scores.max(axis=1, keepdims=True)
    return np.asarray((values * best).sum(axis=1) / best.sum(axis=1))


def _check_attention(operation: Callable[[FloatArray, FloatArray], FloatArray]) -> Finding:
    x = np.linspace(-2.0, 2.0, 65)[:, None]
    pair, ends = np.column_stack([x, -x]), np.broadcast_to([-1.0, 1.0], (65, 2))
    trials = []
    for name, model, scores, values in (
        ("constant query, values equal to keys", _max_head(np.array([[1.0], [0.0]])), pair, pair),
        (
            "constant query, values other than keys",
            _max_head(np.array([[0.5], [1.0]])),
            pair,
            0.5 * pair + 1.0,
        ),
        ("keys and values -1 and 1, query x", attention_only([sign_head()]), -pair, ends),
    ):
        error = float(np.abs(model(x)[:, 0] - operation(scores, values)).max())
        condition = scores is values
        trials.append(Trial(name, error == 0.0, condition, numbers={"largest difference": error}))
    jump = largest_jump(attention_only([sign_head()]))
    return Finding(
        tuple(trials),
        "A head whose query is constant and whose values are its keys returns the largest key. In "
        "general, a head returns the value at the largest score, which is not a maximum: the head "
        f"with keys and values -1, 1 and query x jumps by {jump} at 0.",
        "A head returns the value at the largest score. This is a maximum if the value is the "
        "score, that is, for a constant query and W_V proportional to W_K.",
    )


@dataclass(frozen=True)
class MidpointClaim:
    """The behaviour of feed-forward layers between two points, in general and as compiled."""

    middle: Callable[[FloatArray, FloatArray], FloatArray]
    in_general: bool


def _check_feed_forward(content: MidpointClaim) -> Finding:
    net = random_maxout(3, (2, 3, 2, 1), 3)
    model = compile_maxout(net, centred_cube(2), None).token_transformer
    first = model.blocks[0].ffn
    assert first is not None
    bent = FeedForward(np.array([[1.0, -1.0]]), None, np.array([[1.0], [1.0]]), None)
    x = _dyadic_points(2, 60)
    states = np.einsum("ni,itw->ntw", x, model.embedding_weight) + model.embedding_bias
    trials = []
    for name, ffn, rows, compiled in (
        ("first feed-forward layer of a compiled network, on its tokens", first, states, True),
        ("a feed-forward layer that computes |x|", bent, x[:, None, :1], False),
    ):
        left, right = _apply(ffn, rows[::2]), _apply(ffn, rows[1::2])
        between = _apply(ffn, 0.5 * (rows[::2] + rows[1::2]))
        error = float(np.abs(between - content.middle(left, right)).max())
        numbers = {"largest difference": error}
        holds = error == 0.0 if compiled or content.in_general else None
        trials.append(Trial(f"{name}: midpoints", holds, compiled, numbers=numbers))
    return Finding(
        tuple(trials),
        "On the tokens of a compiled network, the first feed-forward layer is affine to the last "
        "bit, although it consists of ReLU units. In general a feed-forward layer bends (by up to "
        f"{trials[1].numbers['largest difference']:.3g} between the points tried for |x|).",
        "True in the construction, on the tokens that occur; ReLU layers in general are not "
        "affine.",
    )


def _apply(ffn: FeedForward, rows: FloatArray) -> FloatArray:
    assert ffn.b_in is not None
    assert ffn.b_out is not None
    return np.asarray(np.maximum(rows @ ffn.w_in + ffn.b_in, 0.0) @ ffn.w_out + ffn.b_out)


def _perturb_target(compiler: Compiler, by: float = 1.0) -> Compiler:
    """Compile a perturbed target: an output, or the values of a function, moved by this much."""

    def compile_with_offset(source: Any, box: Box, epsilon: float | None) -> CompiledTransformer:
        if isinstance(source, Knots):
            return compiler(Knots(source.positions, source.values + by), box, epsilon)
        if isinstance(source, Mesh):
            moved = Mesh(source.vertices, source.simplices, source.values - by)
            return compiler(moved, box, epsilon)
        biases = list(source.biases or ()) or [np.zeros(w.shape[-1]) for w in source.weights]
        biases[-1] = (0.0 if biases[-1] is None else biases[-1]) + by
        return compiler(type(source)(source.weights, biases), box, epsilon)

    return compile_with_offset


CLAIMS: tuple[Claim[Any], ...] = (
    Claim(
        "B.1",
        "GYZ26",
        "Abstract",
        "theorem",
        "Every maxout network is approximated by a transformer that can be constructed explicitly.",
        content=Emulation(compile_maxout, everywhere=True),
        check=_check_emulation,
        corrupted=Emulation(_perturb_target(compile_maxout), everywhere=True),
        repaired=Emulation(compile_maxout, everywhere=False),
        neighbours={
            "content: a bias moved": Emulation(
                _perturb_target(compile_maxout, 1 / 64), everywhere=True
            ),
            "repaired: a bias moved": Emulation(
                _perturb_target(compile_maxout, 1 / 64), everywhere=False
            ),
        },
    ),
    Claim(
        "B.2a",
        "GYZ26",
        "Abstract",
        "theorem",
        "The transformer is of comparable complexity (tested here as: one block for each layer, "
        "and at most max(9, 4 + 1.5 ceil(log2 k)) nonzero weights for each parameter of a network "
        "of rank k, whatever its widths).",
        content=nonzero_factor,
        check=_check_complexity,
        corrupted=lambda rank: 3 * max(2, (rank - 1).bit_length()),
    ),
    Claim(
        "B.2b",
        "GYZ26",
        "Abstract",
        "theorem",
        "The transformer is of comparable complexity even if zeros are stored: at most 100 "
        "numbers for each parameter, whatever the widths.",
        content=lambda widths, rank: 100 * count_parameters(widths, rank),
        check=_check_dense,
        repaired=count_dense_numbers,
    ),
    Claim(
        "B.3",
        "GYZ26",
        "Abstract",
        "theorem",
        "Transformers inherit universal approximation from ReLU networks at similar complexity.",
        content=compile_relu,
        check=_check_relu,
        corrupted=_perturb_target(compile_relu),
        neighbours={"content: a bias moved": _perturb_target(compile_relu, 1 / 64)},
    ),
    Claim(
        "B.4",
        "GYZ26",
        "Abstract",
        "theorem",
        "Transformers represent continuous piecewise linear functions.",
        content=compile_cpwl,
        check=_check_piecewise_linear,
        corrupted=_perturb_target(compile_cpwl),
        neighbours={"content: the values moved": _perturb_target(compile_cpwl, 1 / 64)},
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
        content=_largest_score,
        check=_check_attention,
        corrupted=lambda scores, values: scores.min(axis=1),
        repaired=_value_at_largest_score,
    ),
    Claim(
        "B.7",
        "GYZ26",
        "Abstract, last sentence",
        "remark",
        "Feed-forward layers are affine maps of each token.",
        content=MidpointClaim(lambda left, right: 0.5 * (left + right), in_general=True),
        check=_check_feed_forward,
        corrupted=MidpointClaim(np.maximum, in_general=True),
        repaired=MidpointClaim(lambda left, right: 0.5 * (left + right), in_general=False),
    ),
)
