r"""The path of one token through a trained transformer, as an argmax network.

Hard self-attention is not piecewise linear, because scores are products of two tokens that both
move. It becomes piecewise linear if one token moves and the memory is fixed. Two networks can be
built:

*The heads of one layer*, for any family, with any norms and activations: the token's vector, as the
heads read it, moves in $\mathbb{R}^d$, and the cells show which key each head selects.

*All layers*, for models with ReLU: the token's vector at the input of the first layer moves, and in
every layer

* each head attends to its best key only;
* keys and values come from the given forward pass, including the token's own. In a causal model
the other tokens do not see the last one, so for the last token this choice only affects its own key
and value; in a bidirectional model it affects all tokens;
* each norm divides by its size at the reference (the original token), which makes it affine. The
dependence on the direction is kept, the division by $\rho(x)$ is not.

At the reference, and wherever the norms have the same sizes, the network agrees with the model with
hard heads. Each norm is multiplied into the next matrix, and the product is rounded; the network is
exact with respect to the numbers it stores.
"""

from dataclasses import replace

import numpy as np

from hardmax._ground.arguments import Sizes, integer
from hardmax.errors import ArgumentError
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.checkpoints.forward import Activations
from hardmax.models.checkpoints.heads import checkpoint_head
from hardmax.models.checkpoints.weights import (
    AttentionWeights,
    LayerWeights,
    Linear,
    Norm,
    TransformerWeights,
    apply_norm,
)
from hardmax.models.heads import AttentionHead
from hardmax.models.layer_words import LayerWords, block_words
from hardmax.models.networks import relu_layer
from hardmax.models.transformers import attention_layer
from hardmax.typing import ArrayLike, FloatArray


def attention_network(
    weights: TransformerWeights, activations: Activations, layer: int = 0, position: int = -1
) -> ArgmaxNetwork:
    """Return the hard heads of one layer, as a token sees them, and the sum of their outputs.

    The input of the network is the input of the heads (see `LayerActivations.inputs`); the memory
    comes from the forward pass. A signature has one entry for each head: the index of its key among
    the keys that the token sees.

    Args:
        weights: The model.
        activations: The result of `run_transformer` for the model.
        layer: The index of the layer.
        position: The position of the token; negative positions count from the end.

    Examples:
        How often the 16 heads of the first layer change their keys between two tokens:

        >>> from hardmax import Segment, enumerate_regions, load_checkpoint
        >>> from hardmax.models import run_transformer
        >>> model = load_checkpoint("hardmax")
        >>> ran = run_transformer(model, [2, 0, 1, 26, 0, 1])
        >>> network = attention_network(model, ran)
        >>> read = ran.layers[0].inputs
        >>> enumerate_regions(network, Segment(read[-2], read[-1])).n_cells > 1
        True
    """
    layer = integer("layer", layer, at_least=0, at_most=len(weights.layers) - 1)
    heads = _layer_heads(weights, activations, layer, position)
    return ArgmaxNetwork(
        (
            _set_output_bias(
                attention_layer(heads, residual=False), weights.layers[layer].attention
            ),
        ),
        AffineMap.identity(weights.dim),
        AffineMap.identity(weights.dim),
    ).with_words([LayerWords(f"layer {layer}", "head", "key")])


def frozen_network(
    weights: TransformerWeights, activations: Activations, position: int = -1
) -> ArgmaxNetwork:
    r"""Return all layers of a ReLU model for one token: hard heads, fixed memory, frozen norms.

    The input of the network is the token's vector at the first layer (see `Activations.embedded`).
    The output is the model's output for that token, after the final norm if there is one. If norms
    come after the residual sums, their affine maps are represented by groups of one form, which
    always wins.

    Args:
        weights: The model, with ReLU and without gates.
        activations: The result of `run_transformer` for the model. If it was run with all heads in
            `hard`, the memory and the output at the reference agree with the hard model.
        position: The position of the token; negative positions count from the end.

    Raises:
        ArgumentError: If an activation is not ReLU; `attention_network` accepts any model.

    Examples:
        >>> from hardmax import Segment, enumerate_regions, load_checkpoint
        >>> from hardmax.models import run_transformer
        >>> model = load_checkpoint("hardmax")
        >>> everywhere = [(i, h) for i in range(2) for h in range(16)]
        >>> ran = run_transformer(model, [2, 0, 1, 26, 0, 1], hard=everywhere)
        >>> network = frozen_network(model, ran)
        >>> path = Segment(ran.embedded[-2], ran.embedded[-1])
        >>> part = enumerate_regions(network, path)
        >>> part.n_cells >= part.n_regions > 1
        True
    """
    _refuse_other_activations(weights)
    dim = weights.dim
    x = activations.embedded[_row_index(position, len(activations.embedded))]
    layers: list[ArgmaxLayer] = []
    # The map from the stream to the input of the next part, to which the part adds its output.
    through = AffineMap.identity(dim)
    for number, layer in enumerate(weights.layers):
        heads = _layer_heads(weights, activations, number, position)
        first, second, x = _run_reference(layer, heads, x)
        attention_norm = _freeze_norm(layer.attention_norm, first)
        mlp_norm = _freeze_norm(layer.mlp_norm, second)
        if layer.norm_first:
            inner = [_precompose(head, attention_norm) for head in heads]
            layers.append(_set_output_bias(attention_layer(inner, residual=True), layer.attention))
            if layer.mlp.up.weight.shape[1]:  # The last block of a compiled model has no units.
                layers.append(_build_relu_layer(layer, mlp_norm, residual=True))
        else:
            inner = [_precompose(head, through) for head in heads]
            attention = _set_output_bias(attention_layer(inner, residual=False), layer.attention)
            layers.append(_add_affine_residual(attention, through))
            layers.append(
                _add_affine_residual(
                    _build_relu_layer(layer, attention_norm, residual=False), attention_norm
                )
            )
            through = mlp_norm
    through = _compose(through, _freeze_norm(weights.final_norm, x))
    words = block_words(
        ((True, not one.norm_first or one.mlp.up.weight.shape[1] > 0) for one in weights.layers),
        "layer",
    )
    return ArgmaxNetwork(tuple(layers), AffineMap.identity(dim), through).with_words(words)


def moved_token(
    weights: TransformerWeights, activations: Activations, x: ArrayLike, position: int = -1
) -> FloatArray:
    """Return the output of a model with hard heads if one token is moved and the memory is fixed.

    The result differs from `frozen_network` only in that every norm divides by its actual size, so
    comparing the two measures the error of the frozen norms. Winners are decided exactly;
    everything else is computed in floats.

    Args:
        weights: The model, with ReLU and without gates.
        activations: The result of `run_transformer` for the model.
        x: The token's vector at the input of the first layer, shape `(d,)`.
        position: The position of the token; negative positions count from the end.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> from hardmax.models import run_transformer
        >>> model = load_checkpoint("hardmax")
        >>> everywhere = [(i, h) for i in range(2) for h in range(16)]
        >>> ran = run_transformer(model, [2, 0, 1, 26], hard=everywhere)
        >>> bool(abs(moved_token(model, ran, ran.embedded[-1]) - ran.hidden[-1]).max() < 1e-12)
        True
    """
    _refuse_other_activations(weights)
    moved = Sizes(d=weights.dim).floats("x", x, ("d",))
    for number, layer in enumerate(weights.layers):
        *_, moved = _run_reference(
            layer, _layer_heads(weights, activations, number, position), moved
        )
    return apply_norm(weights.final_norm, moved)


def _refuse_other_activations(weights: TransformerWeights) -> None:
    for number, layer in enumerate(weights.layers):
        if layer.is_parallel:
            raise ArgumentError(
                f"`weights` must apply heads and units one after the other; layer {number} applies "
                "them in parallel. Use `attention_network`, which accepts any model."
            )
        if layer.mlp.activation != "relu" or layer.mlp.gate is not None:
            kind = f"a gate with {layer.mlp.activation}" if layer.mlp.gate else layer.mlp.activation
            raise ArgumentError(
                "`weights` must have ReLU in every layer, or else frozen norms do not make the "
                f"model piecewise linear; layer {number} has {kind}. Use `attention_network`, "
                "which accepts any model."
            )


def _layer_heads(
    weights: TransformerWeights, activations: Activations, layer: int, position: int
) -> list[AttentionHead]:
    n_heads = weights.layers[layer].attention.n_heads
    return [checkpoint_head(weights, activations, layer, h, position) for h in range(n_heads)]


def _run_reference(
    layer: LayerWeights, heads: list[AttentionHead], x: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the inputs of the two norms, and the output of the layer."""
    inputs = apply_norm(layer.attention_norm, x) if layer.norm_first else x
    u = x + np.sum([head(inputs) for head in heads], axis=0)
    if layer.attention.output_bias is not None:
        u = u + layer.attention.output_bias
    if layer.norm_first:
        return x, u, u + _apply_units(layer, apply_norm(layer.mlp_norm, u))
    z = apply_norm(layer.attention_norm, u)
    after = z + _apply_units(layer, z)
    return u, after, apply_norm(layer.mlp_norm, after)


def _apply_units(layer: LayerWeights, x: FloatArray) -> FloatArray:
    return layer.mlp.down(np.maximum(layer.mlp.up(x), 0.0))


def _freeze_norm(norm: Norm | None, x: FloatArray) -> AffineMap:
    """Return a norm as an affine map, with its size fixed to the value at a point."""
    if norm is None:
        return AffineMap.identity(len(x))
    centre = np.eye(len(x)) - (1.0 / len(x) if norm.kind == "layer" else 0.0)
    centred = x @ centre
    size = np.sqrt((centred**2).mean() + norm.epsilon)
    shift = np.zeros(len(x)) if norm.shift is None else norm.shift
    return AffineMap(centre * (norm.scale / size), shift)


def _to_affine_map(linear: Linear) -> AffineMap:
    bias = np.zeros(linear.weight.shape[1]) if linear.bias is None else linear.bias
    return AffineMap(linear.weight, bias)


def _compose(first: AffineMap, second: AffineMap) -> AffineMap:
    """Return the composition of two maps, rounded."""
    if first.is_identity or second.is_identity:
        return second if first.is_identity else first
    return AffineMap(first.weight @ second.weight, first.bias @ second.weight + second.bias)


def _precompose(head: AttentionHead, before: AffineMap) -> AttentionHead:
    """Return a head that reads the output of an affine map."""
    bias = np.zeros(head.head_dim) if head.query_bias is None else head.query_bias
    query = _compose(before, AffineMap(head.query_weight, bias))
    return replace(head, query_weight=query.weight, query_bias=query.bias)


def _build_relu_layer(layer: LayerWeights, before: AffineMap, *, residual: bool) -> ArgmaxLayer:
    up = _compose(before, _to_affine_map(layer.mlp.up))
    return relu_layer(up, _to_affine_map(layer.mlp.down), residual=residual)


def _set_output_bias(layer: ArgmaxLayer, heads: AttentionWeights) -> ArgmaxLayer:
    if heads.output_bias is None:
        return layer
    return replace(layer, output=AffineMap(layer.output.weight, heads.output_bias))


def _add_affine_residual(layer: ArgmaxLayer, through: AffineMap) -> ArgmaxLayer:
    r"""Return the layer $z \mapsto A(z) + y(z)$ from a layer $z \mapsto y(z)$ without residual.

    Each coordinate of $A(z)$ is a group of one form, which always wins and contributes its score.
    """
    if through.is_identity:
        return replace(layer, residual=True)
    d, width = through.dim_out, layer.values.shape[1]
    p, columns = layer.query.dim_out, layer.output.dim_in
    assert layer.reads is not None
    n_read = layer.reads.shape[1]
    reads = np.full((d, n_read), -1)
    reads[:, 0] = p + np.arange(d)
    # Blocks are as wide as the values. The blocks of the new groups overlap, but only their first
    # column is nonzero.
    beyond = np.vstack([np.eye(d), np.zeros((width - 1, d))])
    return ArgmaxLayer(
        query=AffineMap(
            np.hstack([layer.query.weight, through.weight]),
            np.concatenate([layer.query.bias, through.bias]),
        ),
        slopes=np.vstack([layer.slopes, np.eye(d, n_read)[[0] * d]]),
        offsets=np.concatenate([layer.offsets, np.zeros(d)]),
        starts=np.concatenate([layer.starts, layer.starts[-1] + 1 + np.arange(d)]),
        slots=np.concatenate([layer.slots, columns + np.arange(d)]),
        gains=np.concatenate([layer.gains, np.ones(d)]),
        values=np.vstack([layer.values, np.zeros((d, width))]),
        output=AffineMap(np.vstack([layer.output.weight, beyond]), layer.output.bias),
        residual=False,
        reads=np.vstack([layer.reads, reads]),
    )


def _row_index(position: int, n: int) -> int:
    return integer("position", position, at_least=-n, at_most=n - 1) % n
