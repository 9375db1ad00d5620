"""Loading of checkpoints from a file, a folder or an installed package."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from hardmax.errors import DtypeError, HardmaxError, RecordFormatError
from hardmax.models.checkpoints.families import (
    albert,
    bert,
    compiled,
    distilbert,
    gpt2,
    gpt_neo,
    gpt_neox,
    llama,
    opt,
    phi3,
    torch_encoder,
)
from hardmax.models.checkpoints.finding import BUNDLED, find_weights_file
from hardmax.models.checkpoints.named_tensors import NamedTensors
from hardmax.models.checkpoints.reading import convert_state_dict, read_config, read_weights
from hardmax.models.checkpoints.weights import TransformerWeights
from hardmax.typing import AnyArray

_FAMILIES: tuple[ModuleType, ...] = (
    *(gpt2, gpt_neo, gpt_neox, opt, bert, distilbert, albert, llama, phi3),
    *(torch_encoder, compiled),
)
_SUPPORTED = (
    "GPT-2, GPT-Neo, GPT-NeoX, OPT, BERT, RoBERTa, ELECTRA, DistilBERT, ALBERT, a model like Llama "
    "(Llama, Mistral, Qwen, Phi-3, Gemma), a stack of torch.nn.TransformerEncoderLayer or a "
    "compiled one"
)


def load_checkpoint(
    source: Any,
    select: str | None = None,
    *,
    config: Mapping[str, Any] | None = None,
) -> TransformerWeights:
    """Read the weights of a trained transformer, without a framework and without executing code.

    Args:
        source: One of:

            - a file: safetensors, `torch.save`, GGUF of models like Llama, ONNX as exported by
              torch, or the index of several files;
            - a folder in Hugging Face layout, with `config.json` next to the weights;
            - the name of an installed package that contains weights; the package is not imported;
            - the name of a model in the Hugging Face cache, `"org/name"`; nothing is downloaded;
            - `"hardmax"`, always the small transformer of this package (see `models.load_bundled`);
              for a folder of that name, write `"./hardmax"`;
            - a state dict in memory, or a torch module.

            A file or folder takes precedence over a package of the same name, and a package over a
            cached model. Only strings are names; a `Path` is always a file or a folder.
        select: The checkpoint to read if a folder, package or cached model contains several: the
            name of a file or folder in it, or a relative path. Hidden folders and Python
            environments are not searched.
        config: Configuration that is missing in the files, with the names of the family's
            `config.json`, such as `{"num_attention_heads": 12}`; for torch layers, `nhead`,
            `norm_first`, `activation` and `layer_norm_eps`. It overrides the configuration in the
            files.

    Returns:
        The weights. `TransformerWeights.unused` names the tensors that are not part of the model.

    Raises:
        DtypeError: If `source` has another type.
        ArgumentError: If there is no such checkpoint, or there are several and `select` is None.
        RecordFormatError: If the file is damaged, the model belongs to an unsupported family, or a
            link of a cached model leads out of its blobs. The message describes what was found.

    Examples:
        >>> import numpy as np
        >>> load_checkpoint({"0.weight": np.eye(2)})
        Traceback (most recent call last):
            ...
        hardmax.errors.RecordFormatError: `source` must be a transformer of a supported family; the
        state dict: no tensor is named as in GPT-2, GPT-Neo, GPT-NeoX, OPT, BERT, RoBERTa, ELECTRA,
        DistilBERT, ALBERT, a model like Llama (Llama, Mistral, Qwen, Phi-3, Gemma), a stack of
        torch.nn.TransformerEncoderLayer or a compiled one; there are 1, among them `0.weight`.
    """
    if hasattr(source, "state_dict"):
        own: dict[str, Any] = getattr(getattr(source, "config", None), "to_dict", dict)()
        return load_checkpoint(source.state_dict(), config={**own, **(config or {})})
    if isinstance(source, Mapping):
        return _read_model("the state dict", convert_state_dict(source), dict(config or {}))
    if not isinstance(source, str | os.PathLike):
        raise DtypeError(
            "`source` must be a path, a name, a state dict or a torch module; got "
            f"{type(source).__name__}."
        )
    path = find_weights_file(source, select)
    tensors, said = read_weights(path)
    beside = read_config(path.parent / "config.json")
    where = os.fspath(source) if path == Path(source) else str(path)
    return _read_model(where, tensors, {**beside, **said, **(config or {})})


def load_bundled() -> TransformerWeights:
    """Return the small trained transformer that is included in this package.

    It sorts letters: it continues `shrew|` with `ehrsw`. `load_checkpoint("hardmax")` and
    `tokenise("hardmax", text)` use the same checkpoint.

    Examples:
        >>> load_bundled()
        TransformerWeights(gpt2, 2 layers x 16 heads, d = 32, d_k = 2)
    """
    return load_checkpoint(BUNDLED)


def read_checkpoint(model: Any) -> Any:
    """Return the weights that an argument specifies: a path or a torch module is loaded.

    Anything else is returned unchanged.

    Raises:
        HardmaxError: If `load_checkpoint` fails; the message names the argument `model`.

    Examples:
        >>> read_checkpoint(None) is None
        True
    """
    if not isinstance(model, str | os.PathLike) and not hasattr(model, "state_dict"):
        return model
    try:
        return load_checkpoint(model)
    except HardmaxError as error:
        raise type(error)(str(error).replace("`source`", "`model`", 1)) from None


def _read_model(
    where: str, tensors: Mapping[str, AnyArray], config: dict[str, Any]
) -> TransformerWeights:
    # Files converted from TensorFlow use these names for the scale and shift of a norm.
    names = {name: name.replace("Norm.gamma", "Norm.weight") for name in tensors}
    names = {name: new.replace("Norm.beta", "Norm.bias") for name, new in names.items()}
    try:
        family, prefix = _find_family(tensors, config)
        named = NamedTensors({names[name]: array for name, array in tensors.items()}, config)
        found = family.read(named, prefix)
    except RecordFormatError as error:
        raise RecordFormatError(
            f"`source` must be a transformer of a supported family; {where}: "
            f"{str(error).rstrip('.')}."
        ) from None
    assert isinstance(found, TransformerWeights)
    return found


def _find_family(
    tensors: Mapping[str, AnyArray], config: Mapping[str, Any]
) -> tuple[ModuleType, str]:
    """Return the family whose marker is among the tensor names, and the prefix of the marker."""
    found = []
    for name in tensors:
        marked = [f for f in _FAMILIES if name == f.MARK or name.endswith(f".{f.MARK}")]
        if marked:  # The marker of one family can be a suffix of another family's marker.
            family = max(marked, key=lambda family: len(family.MARK))
            found.append((family, name.removesuffix(family.MARK)))
    kind = config.get("model_type")
    if not found:
        some = ", ".join(f"`{name:.60}`" for name in sorted(tensors)[:3])
        typed = "" if kind is None else f", of the type {kind!r:.40}"
        listed = f"{len(tensors)}, among them {some}{typed}" if tensors else "none"
        raise RecordFormatError(f"no tensor is named as in {_SUPPORTED}; there are {listed}")
    if len(found) > 1:
        places = ", ".join(f"`{prefix}{family.MARK}`" for family, prefix in found[:3])
        raise RecordFormatError(
            f"it has several stacks of layers: {places}; pass only the tensors of one of them"
        )
    family, prefix = found[0]
    if kind is not None and family.MODEL_TYPES and kind not in family.MODEL_TYPES:
        raise RecordFormatError(
            f"its type {kind!r:.40} is not supported; for tensors with these names the supported "
            f"types are {', '.join(family.MODEL_TYPES)}"
        )
    return family, prefix
