"""The reader of `model` arguments: models of this library, paths of files, and torch modules.

Every public function with an argument `model` uses it, so all of them accept the same values.
"""

import os
import sys
from typing import Any

from hardmax.errors import ArgumentError, DtypeError, HardmaxError
from hardmax.models.argmax import AffineMap, ArgmaxLayer, ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.transformers import Block, attention_layer


def read_model(model: Any, name: str = "model") -> Any:
    """Return the model that an argument specifies.

    A path is read by `load_model` and a torch module by `from_torch`; anything else is returned
    unchanged. torch is not imported, because a torch module can only exist after its import.

    Args:
        model: The argument.
        name: The name of the argument, for messages.

    Raises:
        ArgumentError: If a file cannot be opened.
        RecordFormatError: If a file does not contain a model; the message names the file.
        HardmaxError: If `from_torch` cannot read a module.

    Examples:
        >>> import tempfile
        >>> from hardmax import ReluNetwork, save_model
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_model(ReluNetwork([[[1.0]], [[1.0]]]), f"{folder}/net.safetensors")
        ...     read_model(f"{folder}/net.safetensors")
        ReluNetwork(1 -> [1] -> 1)
        >>> read_model("no_such_net.safetensors")
        Traceback (most recent call last):
            ...
        hardmax.errors.ArgumentError: `model` must be a model, or a model file that can be opened;
        'no_such_net.safetensors': No such file or directory.
    """
    if isinstance(model, str | os.PathLike):
        return _read_file(model, name)
    if _is_torch_model(model):
        from hardmax.models.formats.torch.modules import from_torch

        try:
            return from_torch(model)
        except HardmaxError as error:
            raise type(error)(
                f"`{name}` is a torch module that `hm.from_torch` cannot read without further "
                f"arguments: {error}"
            ) from None
    return model


def read_network(model: Any, name: str = "model") -> ArgmaxNetwork:
    """Return the network of a model, or of any argument that `read_model` accepts.

    A single head has no residual connection; a block has its own.

    Args:
        model: The argument.
        name: The name of the argument, for messages.

    Raises:
        DtypeError: If the argument is not a model with a network.

    Examples:
        >>> head = AttentionHead([[1.0]], [[1.0], [2.0]], [[0.0, 0.0], [1.0, 1.0]], [[1.0], [1.0]])
        >>> network = read_network(head)
        >>> network.dim_in, network.dim_out, network.n_groups
        (1, 1, 1)
    """
    if isinstance(model, ArgmaxNetwork):
        return model
    model = read_model(model, name)
    if isinstance(model, AttentionHead):
        return _wrap_network([attention_layer([model], residual=False)], model)
    if isinstance(model, Block):
        return _wrap_network(model.layers(), model)
    network = getattr(model, "network", model)
    if not isinstance(network, ArgmaxNetwork):
        raise DtypeError(
            f"`{name}` must be a model (a ReluNetwork, MaxoutNetwork, HardTransformer, Block, "
            "AttentionHead, GraphNetwork or ArgmaxNetwork, or anything that has an ArgmaxNetwork "
            f"as its `network`), the path of a model file, or a torch module; got "
            f"{type(model).__name__}."
        )
    return network


def _wrap_network(layers: list[ArgmaxLayer], part: AttentionHead | Block) -> ArgmaxNetwork:
    ends = AffineMap.identity(part.dim), AffineMap.identity(part.out_dim)
    return ArgmaxNetwork(tuple(layers), *ends)


def _read_file(path: str | os.PathLike[str], name: str) -> Any:
    # This import loads the formats of other programs, which most callers do not need.
    from hardmax.models.storage import load_model

    try:
        return load_model(path)
    except HardmaxError as error:
        raise type(error)(str(error).replace("`path`", f"`{name}`", 1)) from None
    except OSError as error:
        raise ArgumentError(
            f"`{name}` must be a model, or a model file that can be opened; {os.fspath(path)!r}: "
            f"{error.strerror or error}."
        ) from None


def _is_torch_model(model: Any) -> bool:
    """Whether an argument is a torch module or a list of torch modules."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return False
    if isinstance(model, list | tuple):
        return bool(model) and all(isinstance(one, torch.nn.Module) for one in model)
    return isinstance(model, torch.nn.Module)
