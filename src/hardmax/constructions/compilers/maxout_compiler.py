r"""Compile maxout and ReLU networks to transformers, exactly or within a given error.

Attention computes maxima and feed-forward parts compute affine maps, so a transformer can compute
any network of maxima of affine functions. It needs one token per piece of the largest unit and
about twice as many weights as the network (`token_layout` describes the construction). This is the
theme of [GYZ26]; the construction and its error bound are new here.

`python -m benchmarks compilers` prints, for random networks, the number of nonzero weights per
parameter, the error of the hard transformer, and the largest error of the soft transformer that a
search finds. At small $\varepsilon$, points where several layers err at once are too rare for the
search to find them.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax._ground.arguments import number
from hardmax.constructions.compilers.compiled import CompiledTransformer, compile_network
from hardmax.constructions.compilers.piece_layers import SourceNetwork
from hardmax.constructions.compilers.state_dicts import NetworkFile, read_network_file
from hardmax.errors import ArgumentError, DtypeError, ShapeMismatchError
from hardmax.geometry.domain_text import read_domain
from hardmax.geometry.domains import Box
from hardmax.models.argmax import AffineMap
from hardmax.models.formats.activations import read_activations
from hardmax.models.formats.layered_networks import build_network, interleave
from hardmax.models.model_arguments import read_model
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.typing import ArrayLike


def compile_maxout(
    net: MaxoutNetwork | str | os.PathLike[str], box: Box | str, epsilon: float | None = None
) -> CompiledTransformer:
    r"""Compile a maxout network to a standard transformer that computes it on a box.

    Args:
        net: The network, or the path of its file. All widths and ranks are allowed; the ranks may
            differ within a layer.
        box: The box on which to compute the network: a `Box`, or its text.
        epsilon: None for a hard transformer, which equals the network up to rounding. A positive
            number for a soft transformer, which differs from the network by at most `epsilon` on
            the whole box. The compiler chooses the temperatures and proves `certified_error`.

    Returns:
        The transformer.

    Raises:
        DtypeError: If `net` is not a maxout network.
        ShapeMismatchError: If the box and the network's inputs have different dimensions.
        ArgumentError: If `epsilon` is not larger than the rounding error, or requires temperatures
            outside the range of float32.
        SizeLimitError: If the transformer would store more than $2^{28}$ numbers.

    Examples:
        >>> net = MaxoutNetwork([[[[1.0], [-1.0], [0.0]]], [[2.0]]], [[[0.0, 0.0, 0.5]], [1.0]])
        >>> hard = compile_maxout(net, Box([-1.0], [1.0]))
        >>> hard.transformer([[-1.0], [0.25]]).ravel().tolist()
        [3.0, 2.0]
        >>> soft = compile_maxout(net, Box([-1.0], [1.0]), epsilon=1e-3)
        >>> soft
        CompiledTransformer(MaxoutNetwork(1 -> [1] -> 1, ranks 3 to 3), epsilon = 0.001, certified
        error 0.001, 3 tokens of width 6, 2 blocks, 1 head)
        >>> abs(soft.transformer([[0.5]]) - net([[0.5]])).item() <= soft.certified_error
        True
    """
    net = read_model(net, "net")
    if not isinstance(net, MaxoutNetwork):
        raise DtypeError(
            f"`net` must be a MaxoutNetwork; got {type(net).__name__}. For a ReLU network, use "
            "`compile_relu`."
        )
    return compile_network(net, _read_box(box, net.dim_in), _read_epsilon(epsilon))


def compile_relu(
    net: ReluNetwork | Sequence[Any] | Any,
    box: Box | str,
    epsilon: float | None = None,
    *,
    activations: Any = None,
    last_activation: Any = None,
) -> CompiledTransformer:
    r"""Compile a ReLU network to a standard transformer of two tokens that computes it on a box.

    A ReLU is the maximum of two pieces, one of which is 0. Networks with other activations that are
    maxima (leaky ReLU, hard tanh, ...) are compiled directly; `read_activation` lists them.

    Args:
        net: A `ReluNetwork`, or the path of its file; a sequential `torch.nn` module of `Linear`
            layers and such activations (read by `from_torch`); or a list with one entry for each
            layer, a matrix `(n_in, n_out)` or a pair of a matrix and a bias.
        box: The box on which to compute the network: a `Box`, or its text.
        epsilon: The largest error, as in `compile_maxout`.
        activations: The activations after the layers, if `net` is a list: either one name for all
            layers but the last, or one name for each layer, including the last. By default, `relu`
            after every layer but the last.
        last_activation: The activation after the last layer, if `activations` is a single name.

    Returns:
        The transformer.

    Examples:
        >>> compiled = compile_relu([[[1.0, -1.0]], ([[1.0], [1.0]], [-1.0])], Box([-2.0], [2.0]))
        >>> compiled.transformer([[-2.0], [0.0], [1.0]]).ravel().tolist()
        [1.0, -1.0, 0.0]
        >>> print(compiled.size)
        tokens              2
        width               7
        blocks              2
        heads               2
        d_ff                6, 0
        parameters          189
        nonzeros            33
        source parameters   7
        overhead            4.71
        >>> leaky = compile_relu([[[1.0]], [[2.0]]], Box([-2.0], [2.0]),
        ...                      activations="leaky_relu(0.25)", last_activation="hardtanh")
        >>> leaky.transformer([[-2.0], [-1.0], [0.25], [1.0]]).ravel().tolist()
        [-1.0, -0.5, 0.5, 1.0]
    """
    read = read_layers(net, activations, last_activation)
    return compile_network(read, _read_box(box, read.dim_in), _read_epsilon(epsilon))


def compile_file(
    path: str | os.PathLike[str],
    box: Box | str | tuple[float, float],
    epsilon: float | None = None,
    *,
    activations: Any = None,
    last_activation: Any = None,
) -> CompiledTransformer:
    """Compile the network in a file.

    If the file does not specify the activations, they are assumed, and the attribute `assumption`
    of the result states the assumption.

    Args:
        path: A file that `read_network_file` can read: a file of this library, an ONNX file, a
            scripted module, or a state dict.
        box: The box on which to compute the network: a `Box`, its text, or a pair of numbers for
            the same interval in each coordinate.
        epsilon: The largest error, as in `compile_maxout`.
        activations: The activations of a state dict, as in `read_network_file`. By default, ReLU is
            assumed.
        last_activation: The activation after the last layer of a state dict.

    Returns:
        The transformer.

    Examples:
        >>> import tempfile
        >>> from safetensors.numpy import save_file
        >>> weights = {"0.weight": np.array([[1.0], [-1.0]]), "2.weight": np.ones((1, 2))}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_file(weights, f"{folder}/net.safetensors")
        ...     bare = compile_file(f"{folder}/net.safetensors", (-1, 1))
        ...     told = compile_file(f"{folder}/net.safetensors", (-1, 1), activations="abs, relu")
        >>> bare.assumption
        'a ReLU after every layer but the last, nothing after it; a state dict does not say'
        >>> told.assumption, bare([0.5]).tolist(), told([0.5]).tolist()
        (None, [0.5], [1.0])
    """
    return compile_network_file(read_network_file(path, activations, last_activation), box, epsilon)


def compile_network_file(
    file: NetworkFile, box: Box | str | tuple[float, float], epsilon: float | None
) -> CompiledTransformer:
    """Compile a network that was read from a file (see `compile_file`)."""
    dim = file.network.dim_in
    if isinstance(box, tuple) and len(box) == 2:
        box = Box(*(np.full(dim, number("box", side)) for side in box))
    compiled = compile_network(file.network, _read_box(box, dim), _read_epsilon(epsilon))
    return replace(compiled, assumption=file.assumption)


def read_layers(net: Any, activations: Any = None, last: Any = None) -> SourceNetwork:
    """Read a network from a `ReluNetwork`, a torch module, or arrays with stated activations."""
    stated = activations is not None or last is not None
    if isinstance(net, str | os.PathLike):
        net = read_model(net, "net")
    if stated and (isinstance(net, ReluNetwork | MaxoutNetwork) or hasattr(net, "state_dict")):
        raise ArgumentError(
            f"`activations` cannot be combined with a {type(net).__name__}, which has its own "
            "activations. Omit the argument."
        )
    if isinstance(net, ReluNetwork):
        return net
    if hasattr(net, "state_dict"):
        from hardmax.models.formats.torch.modules import from_torch

        model = from_torch(net)
        if not isinstance(model, ReluNetwork | MaxoutNetwork):
            raise DtypeError(
                "`net` must be a sequence of Linear layers and activations. This "
                f"{type(net).__name__} has convolutions, pools, normalizations or skip "
                "connections, which `hm.from_torch` can read but the compilers do not support."
            )
        return model
    read = read_relu(net)
    if not stated:
        return read
    maps = [AffineMap(w, b) for w, b in zip(read.weights, read.biases or (), strict=True)]
    used = read_activations("relu" if activations is None else activations, last, len(maps))
    return build_network(interleave(maps, used))


def read_relu(net: Any) -> ReluNetwork:
    """Read a ReLU network from arrays."""
    if isinstance(net, MaxoutNetwork):
        raise DtypeError(
            "`net` must be a ReLU network; got a MaxoutNetwork. Use `compile_maxout` instead."
        )
    if isinstance(net, str | bytes | dict) or not isinstance(net, Sequence):
        raise DtypeError(
            "`net` must be a ReluNetwork, a torch.nn.Sequential, the path of a file, or a list of "
            f"matrices or pairs (matrix, bias); got {type(net).__name__}."
        )
    weights: list[ArrayLike] = []
    biases: list[ArrayLike | None] = []
    for i, layer in enumerate(net):
        pair = layer if isinstance(layer, tuple) or _is_pair(layer) else (layer, None)
        if len(pair) != 2:
            raise ShapeMismatchError(
                f"`net[{i}]` must be a matrix or a pair (matrix, bias); got a tuple of "
                f"{len(pair)} entries."
            )
        weights.append(_detach(pair[0]))
        biases.append(_detach(pair[1]))
    return ReluNetwork(weights, biases)  # type: ignore[arg-type]


def _detach(array: Any) -> Any:
    """Detach a torch parameter: NumPy rejects tensors with gradients or on other devices."""
    return array.detach().cpu() if hasattr(array, "detach") else array


def _is_pair(layer: Any) -> bool:
    """Return whether a list is a pair of a matrix and a bias, not the rows of a matrix."""
    first: Any = layer[0] if isinstance(layer, list) and len(layer) == 2 else None
    if hasattr(first, "ndim"):
        return bool(first.ndim == 2)
    return isinstance(first, list | tuple) and bool(first) and np.ndim(first[0]) == 1


def _read_box(box: Any, dim: int) -> Box:
    box = read_domain(box, "box")
    if not isinstance(box, Box):
        raise DtypeError(
            f"`box` must be a bounded Box; got {type(box).__name__}. A transformer can compute a "
            "network only on a bounded set."
        )
    if box.dim != dim:
        raise ShapeMismatchError(
            f"`box` must have dimension {dim}, like the inputs of the network; got {box.dim}."
        )
    return box


def _read_epsilon(epsilon: Any) -> float | None:
    if epsilon is None:
        return None
    value = number("epsilon", epsilon)
    if not value > 0.0:
        raise ArgumentError(
            f"`epsilon` must be positive, or None for a hard transformer; got {value}."
        )
    return value
