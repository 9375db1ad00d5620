"""Quadric routing of trained heads: with the token's own key, or with the norm before the head.

`checkpoint_head` and `attention_network` hold the key of the moving token fixed, and read vectors
after the norm. Here the key moves with the token, or the vector is taken before the norm. Winners
are decided exactly for the stored numbers in both cases.
"""

from dataclasses import replace

import numpy as np

from hardmax._ground.arguments import integer
from hardmax.errors import ArgumentError
from hardmax.models.checkpoints.forward import Activations
from hardmax.models.checkpoints.heads import checkpoint_head
from hardmax.models.checkpoints.weights import Norm, TransformerWeights
from hardmax.models.variants.normalisation import Normalisation, NormalisedRouting
from hardmax.models.variants.own_key import OwnKeyRouting


def own_key_routing(
    weights: TransformerWeights,
    activations: Activations,
    layer: int,
    head: int,
    position: int = -1,
) -> OwnKeyRouting:
    r"""Return a head whose token moves together with its own key, while the other keys are fixed.

    The input is the input of the layer's heads. The own key is $x W_K + b_K$, rotated by the
    token's position like the query if positions are rotary.

    Args:
        weights: The model.
        activations: The result of `run_transformer` for the model.
        layer: The index of the layer.
        head: The index of the head.
        position: The position of the token; negative positions count from the end.

    Raises:
        ArgumentError: If the token sees no key but its own.

    Examples:
        >>> from hardmax import load_checkpoint
        >>> from hardmax.models import run_transformer
        >>> model = load_checkpoint("hardmax")
        >>> ran = run_transformer(model, [2, 0, 1, 26])
        >>> routing = own_key_routing(model, ran, layer=0, head=3)
        >>> int(routing.winners(ran.layers[0].inputs[-1])) <= 4
        True
    """
    fixed = checkpoint_head(weights, activations, layer, head, position)
    place = integer("position", position, at_least=-fixed.n_keys, at_most=fixed.n_keys - 1)
    bias = np.zeros(fixed.n_keys) if fixed.logit_bias is None else fixed.logit_bias.copy()
    bias[place] = -np.inf
    if not (bias > -np.inf).any():
        raise ArgumentError(
            "`position` must be a token that sees other tokens; it only sees itself."
        )
    heads = weights.layers[layer].attention
    kv = head * heads.n_kv_heads // heads.n_heads
    key = np.asarray(heads.key[kv], dtype=np.float64)
    shift = None if heads.key_bias is None else np.asarray(heads.key_bias[kv], dtype=np.float64)
    if heads.rotary is not None:
        at = place % fixed.n_keys
        key = heads.rotary(key, np.full(len(key), at))
        shift = None if shift is None else heads.rotary(shift[None], np.array([at]))[0]
    return OwnKeyRouting(replace(fixed, logit_bias=bias), key, shift)


def normalised_routing(
    weights: TransformerWeights,
    activations: Activations,
    layer: int,
    head: int,
    position: int = -1,
) -> NormalisedRouting:
    """Return a head together with the norm before it, as a function of the input of that norm.

    If norms come first, this is the layer's own norm; otherwise it is the norm of the previous
    layer or of the embedding.

    Args:
        weights: The model.
        activations: The result of `run_transformer` for the model.
        layer: The index of the layer.
        head: The index of the head.
        position: The position of the token; negative positions count from the end.

    Raises:
        ArgumentError: If there is no norm before the heads of the layer.

    Examples:
        The biases of the norm and of the queries bend the walls:

        >>> from hardmax import load_checkpoint
        >>> from hardmax.models import run_transformer
        >>> model = load_checkpoint("hardmax")
        >>> ran = run_transformer(model, [2, 0, 1, 26])
        >>> normalised_routing(model, ran, layer=0, head=3).kind
        'quadric'
    """
    routed = checkpoint_head(weights, activations, layer, head, position)
    norm = _find_norm_before(weights, layer)
    if norm is None:
        raise ArgumentError(f"`layer` must have a norm before its heads; layer {layer} has none.")
    shift = None if norm.shift is None else np.asarray(norm.shift, dtype=np.float64)
    gain = np.asarray(norm.scale, dtype=np.float64)
    return NormalisedRouting(routed, Normalisation(norm.kind, gain, shift, norm.epsilon))


def _find_norm_before(weights: TransformerWeights, layer: int) -> Norm | None:
    if weights.layers[layer].norm_first:
        return weights.layers[layer].attention_norm
    if layer:
        return weights.layers[layer - 1].mlp_norm
    embedding = weights.embedding
    return None if embedding is None or embedding.projection is not None else embedding.norm
