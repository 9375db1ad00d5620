"""Any model file the library reads, for the commands that take one."""

from pathlib import Path
from typing import Any

from hardmax.cli.flags import opening

ASSUMED = "a state dict does not say what stands between its layers: a ReLU after each but the last"


def read_model(flag: str, path: Path) -> tuple[Any, str]:
    """Read a model from any file the library reads.

    Args:
        flag: What the file is called on the command line, for messages.
        path: A file of `save_model`, a compiled transformer or function, or a state dict of a
            `torch.nn.Sequential` of `Linear` and `ReLU`, as safetensors.

    Returns:
        A model that the engines read, and what had to be assumed about it; may be empty.
    """
    from hardmax.constructions.compiled_files import load_compiled
    from hardmax.constructions.compiled_function_files import load_function
    from hardmax.constructions.state_dicts import load_network
    from hardmax.models.storage import load_model

    with opening(flag, path):
        kind = _format(path)
        if kind is None:
            return load_network(path), ASSUMED
        if kind.startswith("hardmax.compiled-function/"):
            return load_function(path), ""
        if kind.startswith("hardmax.compiled/"):
            return load_compiled(path), ""
        return _with_network(load_model(path)), ""


def described(model: Any) -> str:
    """Say in one line what a model is."""
    from hardmax.models.argmax_layers import ArgmaxNetwork

    if not isinstance(model, ArgmaxNetwork):
        return repr(model)
    layers = f"{len(model.layers)} layer{'s' * (len(model.layers) != 1)}"
    return f"ArgmaxNetwork(R^{model.dim_in} -> R^{model.dim_out}, {layers})"


def _format(path: Path) -> str | None:
    """Return the format a file claims to have; None if it is not one of this library."""
    from hardmax.errors import RecordFormatError
    from hardmax.json_text import parse_json
    from hardmax.models.tensor_files import read_tensors

    try:
        header, _ = read_tensors(path)
        fields = None if header is None else parse_json(header)
    except RecordFormatError:
        return None
    if header is None:
        return None
    return str(fields.get("format")) if isinstance(fields, dict) else ""


def _with_network(model: Any) -> Any:
    """Return a model itself, and a head as a network of one layer."""
    from hardmax.models.argmax_layers import AffineMap, ArgmaxNetwork
    from hardmax.models.heads import AttentionHead
    from hardmax.models.transformers import attention_layer

    if not isinstance(model, AttentionHead):
        return model
    layer = attention_layer([model], residual=False)
    return ArgmaxNetwork(
        (layer,), AffineMap.identity(layer.dim_in), AffineMap.identity(layer.dim_out)
    )
