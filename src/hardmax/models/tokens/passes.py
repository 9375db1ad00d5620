r"""Forward passes of token transformers on a batch: hard with proven radii, exact, and soft.

The hard pass carries a radius with every float. If several keys might win, the true output of the
head is a mean of some of their values, so it lies within the range of all of them. If this range is
no wider than rounding errors (as for a head that contributes its best score), no decision is
needed; otherwise the point is evaluated in rational arithmetic. In the last block, only the token
that is read out has queries.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from flint import fmpq, fmpq_mat

from hardmax.errors import NonFiniteError
from hardmax.exact.dyadic import integer_matrix, nearest_quotients
from hardmax.exact.rounding import RAISE, rounding_factor
from hardmax.models._arithmetic.enclosures import (
    FLOOR,
    Enclosed,
    EnclosedMap,
    add_enclosures,
    mark_overflow,
)
from hardmax.models.points import PointBatch
from hardmax.typing import ArrayLike, BoolArray, FloatArray

if TYPE_CHECKING:
    from hardmax.models.tokens.transformers import TokenBlock, TokenHead, TokenTransformer

_ENTRIES_AT_ONCE = 1 << 20
_HARMLESS = 256.0
"""The maximum difference of values, in radii, up to which the choice among them is rounding."""


def evaluate_hard(model: "TokenTransformer", x: ArrayLike) -> FloatArray:
    """Evaluate the hard model (see `TokenTransformer.__call__`)."""
    batch = PointBatch.read("x", x, model.dim_in)
    output = np.empty((len(batch.rows), model.dim_out))
    for chunk in _split_into_chunks(model, len(batch.rows)):
        points = batch.rows[chunk]
        enclosed, is_open = evaluate_in_enclosures(model, points)
        output[chunk] = enclosed.values
        for i in np.flatnonzero(is_open):
            output[chunk][i] = _round(evaluate_exactly(model, points[i]))
    return batch.unpack(output)


def evaluate_soft(model: "TokenTransformer", x: ArrayLike, taus: list[float]) -> FloatArray:
    """Evaluate the soft model with one temperature above 0 per block."""
    batch = PointBatch.read("x", x, model.dim_in)
    output = np.empty((len(batch.rows), model.dim_out))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for chunk in _split_into_chunks(model, len(batch.rows)):
            state = _embed(model, batch.rows[chunk])
            for (block, asking), tau in zip(_iter_blocks(model), taus, strict=True):
                state = _apply_soft_block(block, model.allowed[asking], state, asking, tau)
            output[chunk] = state[:, _read_index(model)] @ model.readout.weight
            output[chunk] += model.readout.bias
    if not np.isfinite(output).all():
        row = int(np.flatnonzero(~np.isfinite(output).all(axis=1))[0])
        raise NonFiniteError(
            f"The soft model overflows float64 at row {row} of `x`. Raise the temperature, or "
            "scale the weights down."
        )
    return batch.unpack(output)


def iter_token_states(
    model: "TokenTransformer", points: FloatArray, taus: list[float]
) -> Iterator[FloatArray]:
    """Yield the input of each block of the soft model, with all tokens: `(n, n_tokens, width)`."""
    state = _embed(model, points)
    for block, tau in zip(model.blocks, taus, strict=True):
        yield state
        state = _apply_soft_block(block, model.allowed, state, slice(None), tau)


def evaluate_in_enclosures(
    model: "TokenTransformer", points: FloatArray
) -> tuple[Enclosed, BoolArray]:
    """Evaluate the hard model in floats with radii.

    Args:
        model: The transformer.
        points: Finite points, shape `(n_points, dim_in)`.

    Returns:
        The outputs with radii, shape `(n_points, dim_out)`, and the mask of the points at which a
        decision is open.
    """
    n, n_tokens, width = len(points), model.n_tokens, model.width
    weight = np.ascontiguousarray(model.embedding_weight.reshape(model.dim_in, -1))
    embedded = EnclosedMap(weight, model.embedding_bias.ravel())(Enclosed.exactly(points))
    state = Enclosed(*(part.reshape(n * n_tokens, width) for part in embedded))
    is_open = np.zeros(n, dtype=bool)
    for block, asking in _iter_blocks(model):
        own = state if asking == slice(None) else _select_tokens(state, n_tokens, asking)
        if block.heads:
            parts = [
                _apply_hard_heads(stack, model.allowed[asking], state, own, is_open)
                for stack in stack_heads(block)
            ]
            total = parts[0]
            for part in parts[1:]:
                total = add_enclosures(total, part)
            state = add_enclosures(own, total) if block.attention_residual else total
        else:
            state = own
        if block.ffn is not None:
            q = EnclosedMap(block.ffn.w_in, np.asarray(block.ffn.b_in))(state)
            off = q.values < -q.radii
            units = Enclosed(np.maximum(q.values, 0.0), np.where(off, 0.0, q.radii))
            result = EnclosedMap(block.ffn.w_out, np.asarray(block.ffn.b_out))(units)
            state = add_enclosures(state, result) if block.ffn_residual else result
    last = _read_index(model)
    row = _select_tokens(state, len(state.values) // max(n, 1), slice(last, last + 1))
    output = EnclosedMap(model.readout.weight, model.readout.bias)(row)
    is_open |= ~np.isfinite(output.radii).all(axis=1)
    return output, is_open


def _apply_hard_heads(
    stack: "HeadStack", allowed: BoolArray, state: Enclosed, own: Enclosed, is_open: BoolArray
) -> Enclosed:
    """Return the contribution of hard heads to each token of `own`; mark open points."""
    n_asking, n_tokens = allowed.shape

    def project(source: Enclosed, n: int, weight: FloatArray, bias: FloatArray) -> Enclosed:
        rows = EnclosedMap(weight, bias)(source)
        size = weight.shape[1] // stack.n_heads
        shape = -1, n, weight.shape[1]
        return Enclosed(*(_split_heads(part.reshape(shape), stack.n_heads, size) for part in rows))

    no_key_bias, no_value_bias = (np.zeros(stack.n_heads * n) for n in (stack.d_k, stack.d_v))
    query = project(own, n_asking, stack.query_weight, stack.query_bias)
    scores = _multiply_pairs(query, project(state, n_tokens, stack.key_weight, no_key_bias))
    value = project(state, n_tokens, stack.value_weight, no_value_bias)
    low = np.where(allowed, scores.values - scores.radii, -np.inf)
    high = np.where(allowed, scores.values + scores.radii, -np.inf)
    # An unknown score has an infinite radius: it can win, and gives no lower bound.
    candidates = allowed & (high >= low.max(axis=-1, keepdims=True))
    best = np.where(candidates, scores.values, -np.inf)
    is_best = best == best.max(axis=-1, keepdims=True)
    share = is_best / is_best.sum(axis=-1, keepdims=True)
    mean = share @ value.values
    # Shapes are (n, head, query token, key token, d_v); below, without the key token.
    around = candidates[..., None], value.values[:, :, None], value.radii[:, :, None]
    away = np.abs(around[1] - mean[:, :, :, None]) + around[2]
    spread = np.where(around[0], away, 0.0).max(axis=3)
    radius = np.where(around[0], around[2], 0.0).max(axis=3)
    exact_ties = np.where(candidates, scores.radii, 0.0).max(axis=-1) == 0.0
    decided = (candidates.sum(axis=-1) == 1) | exact_ties
    harmless = (spread <= _HARMLESS * radius).all(axis=-1)
    is_open |= ~(decided | harmless).all(axis=(1, 2))
    # The error of the mean of tied values is their radii plus its own rounding error.
    roundings = rounding_factor(n_tokens + 2) * (share @ _floor_sizes(value))
    radii = np.where(decided[..., None], radius, spread) * RAISE + roundings
    flat = mark_overflow(*(_merge_heads(part) for part in (mean, radii)))
    return EnclosedMap(stack.output_weight, np.zeros(stack.output_weight.shape[1]))(flat)


def _select_tokens(state: Enclosed, n_tokens: int, asking: slice) -> Enclosed:
    """Return the rows of some tokens of each point."""

    def rows(part: FloatArray) -> FloatArray:
        width = part.shape[1]
        return part.reshape(-1, n_tokens, width)[:, asking].reshape(-1, width)

    return Enclosed(rows(state.values), rows(state.radii))


def _multiply_pairs(query: Enclosed, key: Enclosed) -> Enclosed:
    r"""Return the scores of all pairs of tokens, by the lemma of `enclosures`."""
    kappa = rounding_factor(query.values.shape[-1] + 2)
    q_size, k_size = (_floor_sizes(part) for part in (query, key))
    transposed = (0, 1, 3, 2)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        values = query.values @ key.values.transpose(transposed)
        left = kappa * q_size + RAISE * query.radii
        right = RAISE * (q_size + query.radii)
        radii = left @ k_size.transpose(transposed) + right @ key.radii.transpose(transposed)
    return mark_overflow(values, radii)


def _floor_sizes(part: Enclosed) -> FloatArray:
    present = (part.values != 0.0) | (part.radii != 0.0)
    return np.where(present, np.maximum(np.abs(part.values), FLOOR), 0.0)


def evaluate_exactly(model: "TokenTransformer", point: FloatArray) -> list[fmpq]:
    """Evaluate the hard model at one point in rational arithmetic; return `dim_out` rationals."""
    n_tokens, width = model.n_tokens, model.width
    weight = model.embedding_weight.reshape(model.dim_in, -1)
    embedded = _to_rational(point[None]) * _to_rational(weight)
    state = fmpq_mat(n_tokens, width, embedded.entries()) + _to_rational(model.embedding_bias)
    for block in model.blocks:
        if block.heads:
            total = fmpq_mat(n_tokens, width)
            for head in block.heads:
                total += _apply_exact_head(head, model.allowed, state)
            state = state + total if block.attention_residual else total
        if block.ffn is not None:
            bias_in, bias_out = np.asarray(block.ffn.b_in), np.asarray(block.ffn.b_out)
            q = state * _to_rational(block.ffn.w_in) + _repeat_row(bias_in, n_tokens)
            on = fmpq_mat(n_tokens, block.ffn.d_ff, [max(entry, fmpq(0)) for entry in q.entries()])
            result = on * _to_rational(block.ffn.w_out) + _repeat_row(bias_out, n_tokens)
            state = state + result if block.ffn_residual else result
    row = state.entries()[model.readout_token * width : (model.readout_token + 1) * width]
    output = fmpq_mat(1, width, row) * _to_rational(model.readout.weight)
    entries: list[fmpq] = (output + _to_rational(model.readout.bias[None])).entries()
    return entries


def _apply_exact_head(head: "TokenHead", allowed: BoolArray, state: fmpq_mat) -> fmpq_mat:
    n_tokens = len(allowed)
    query = state * _to_rational(head.query_weight) + _repeat_row(head.bias, n_tokens)
    scores = (query * (state * _to_rational(head.key_weight)).transpose()).entries()
    weights = [fmpq(0)] * n_tokens**2
    for t in range(n_tokens):
        keys = np.flatnonzero(allowed[t]).tolist()
        best = max(scores[t * n_tokens + s] for s in keys)
        winners = [s for s in keys if scores[t * n_tokens + s] == best]
        for s in winners:
            weights[t * n_tokens + s] = fmpq(1, len(winners))
    mixed = fmpq_mat(n_tokens, n_tokens, weights) * state
    return mixed * (_to_rational(head.value_weight) * _to_rational(head.output_weight))


def _to_rational(array: FloatArray) -> fmpq_mat:
    matrix, exponent = integer_matrix(np.array(array))
    scale = fmpq(1 << max(exponent, 0), 1 << max(-exponent, 0))
    return fmpq_mat(matrix) * scale


def _repeat_row(row: FloatArray, n_rows: int) -> fmpq_mat:
    return _to_rational(np.tile(row, (n_rows, 1)))


def _round(entries: list[fmpq]) -> FloatArray:
    numerators = np.array([int(entry.p) for entry in entries], dtype=object)
    denominators = np.array([int(entry.q) for entry in entries], dtype=object)
    return nearest_quotients(numerators, denominators)


class HeadStack(NamedTuple):
    """Heads of equal sizes, concatenated: head `h` owns the columns from `h * d_k` of the query."""

    query_weight: FloatArray
    query_bias: FloatArray
    key_weight: FloatArray
    value_weight: FloatArray
    output_weight: FloatArray
    n_heads: int
    d_k: int
    d_v: int


_stacks: "WeakKeyDictionary[TokenBlock, list[HeadStack]]" = WeakKeyDictionary()


def stack_heads(block: "TokenBlock") -> list[HeadStack]:
    """Return the heads of a block in stacks of equal sizes."""
    if block not in _stacks:
        by_size: dict[tuple[int, int], list[TokenHead]] = defaultdict(list)
        for head in block.heads:
            by_size[head.d_k, head.d_v].append(head)
        _stacks[block] = [
            HeadStack(
                np.hstack([head.query_weight for head in heads]),
                np.concatenate([head.bias for head in heads]),
                np.hstack([head.key_weight for head in heads]),
                np.hstack([head.value_weight for head in heads]),
                np.vstack([head.output_weight for head in heads]),
                len(heads),
                d_k,
                d_v,
            )
            for (d_k, d_v), heads in by_size.items()
        ]
    return _stacks[block]


def _apply_soft_block(
    block: "TokenBlock", allowed: BoolArray, state: FloatArray, asking: slice, tau: float
) -> FloatArray:
    own = state[:, asking]
    if block.heads:
        total = sum(
            _apply_soft_heads(stack, allowed, state, own, tau) for stack in stack_heads(block)
        )
        own = own + total if block.attention_residual else np.asarray(total)
    if block.ffn is not None:
        units = np.maximum(own @ block.ffn.w_in + np.asarray(block.ffn.b_in), 0.0)
        result = units @ block.ffn.w_out + np.asarray(block.ffn.b_out)
        own = own + result if block.ffn_residual else result
    return own


def _apply_soft_heads(
    stack: HeadStack, allowed: BoolArray, state: FloatArray, own: FloatArray, tau: float
) -> FloatArray:
    query = _split_heads(own @ stack.query_weight + stack.query_bias, stack.n_heads, stack.d_k)
    key = _split_heads(state @ stack.key_weight, stack.n_heads, stack.d_k)
    value = _split_heads(state @ stack.value_weight, stack.n_heads, stack.d_v)
    logits = query @ key.transpose(0, 1, 3, 2) / (tau * np.sqrt(stack.d_k))
    logits = np.where(allowed, logits, -np.inf)
    weights = np.exp(logits - logits.max(axis=3, keepdims=True))
    weights /= weights.sum(axis=3, keepdims=True)
    mixed = _merge_heads(weights @ value) @ stack.output_weight
    return np.asarray(mixed.reshape(own.shape))


def _iter_blocks(model: "TokenTransformer") -> Iterator[tuple["TokenBlock", slice]]:
    """Yield each block with the tokens whose new states are needed."""
    last = slice(model.readout_token, model.readout_token + 1)
    for index, block in enumerate(model.blocks, 1):
        yield block, last if index == len(model.blocks) else slice(None)


def _read_index(model: "TokenTransformer") -> int:
    """Return the index of the token that is read out in the last state."""
    return 0 if model.blocks else model.readout_token


def _split_heads(rows: FloatArray, n_heads: int, size: int) -> FloatArray:
    """Reshape `(n, n_tokens, n_heads * size)` to `(n, n_heads, n_tokens, size)`."""
    return rows.reshape(*rows.shape[:2], n_heads, size).transpose(0, 2, 1, 3)


def _merge_heads(heads: FloatArray) -> FloatArray:
    """Reshape `(n, n_heads, n_tokens, size)` to `(n * n_tokens, n_heads * size)`."""
    n, n_heads, n_tokens, size = heads.shape
    return heads.transpose(0, 2, 1, 3).reshape(n * n_tokens, n_heads * size)


def _embed(model: "TokenTransformer", points: FloatArray) -> FloatArray:
    state = points @ model.embedding_weight.reshape(model.dim_in, -1)
    return np.asarray(state.reshape(-1, model.n_tokens, model.width) + model.embedding_bias)


def _split_into_chunks(model: "TokenTransformer", n_points: int) -> list[slice]:
    widest = model.width
    for block in model.blocks:
        widest = max(widest, len(block.heads) * model.n_tokens)
        widest = max(widest, block.ffn.d_ff if block.ffn is not None else 0)
    step = max(1, _ENTRIES_AT_ONCE // (model.n_tokens * widest))
    return [slice(start, start + step) for start in range(0, n_points, step)]
