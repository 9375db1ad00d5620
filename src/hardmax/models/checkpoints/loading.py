"""Checkpoints: a file, a folder or an installed package with weights, as `TransformerWeights`."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from hardmax.errors import ArgumentError, DtypeError, RecordFormatError
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
from hardmax.models.checkpoints.named_tensors import NamedTensors
from hardmax.models.checkpoints.reading import (
    INDEX,
    SUFFIXES,
    given_tensors,
    read_config,
    read_weights,
)
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
_NOT_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state", "scaler")


def load_checkpoint(
    source: Any,
    select: str | None = None,
    *,
    config: Mapping[str, Any] | None = None,
) -> TransformerWeights:
    """Read the weights of a trained transformer. No framework is needed, and nothing is run.

    Args:
        source: A file (safetensors, `torch.save`, GGUF of models like Llama, ONNX as torch
            exports it, or the index of several); a folder as of Hugging Face, with `config.json`
            beside the weights; the name of an installed package that carries weights, which is not
            imported; or in memory a state dict, or a module of torch that has one.
        select: Which one, where a folder or package has several: the name of a file or folder, or
            its path from there.
        config: What the files do not say, in the words of the family's `config.json`, such as
            `{"num_attention_heads": 12}`; for layers of torch `nhead`, `norm_first`, `activation`,
            `layer_norm_eps`. It goes before what the files say.

    Returns:
        The weights. `TransformerWeights.unused` names tensors that are not part of its layers.

    Raises:
        DtypeError: If `source` is something else.
        ArgumentError: If there is no such file or package, or several and none is selected.
        RecordFormatError: If the file is damaged, or the model is of another family; the message
            says what was found.

    Examples:
        >>> import numpy as np
        >>> load_checkpoint({"0.weight": np.eye(2)})
        Traceback (most recent call last):
            ...
        hardmax.errors.RecordFormatError: `source` must be a transformer that is read here; the
        state dict: no tensor is named as in GPT-2, GPT-Neo, GPT-NeoX, OPT, BERT, RoBERTa, ELECTRA,
        DistilBERT, ALBERT, a model like Llama (Llama, Mistral, Qwen, Phi-3, Gemma), a stack of
        torch.nn.TransformerEncoderLayer or a compiled one; there are 1, among them `0.weight`.
    """
    if hasattr(source, "state_dict"):
        own: dict[str, Any] = getattr(getattr(source, "config", None), "to_dict", dict)()
        return load_checkpoint(source.state_dict(), config={**own, **(config or {})})
    if isinstance(source, Mapping):
        return _read("the state dict", given_tensors(source), dict(config or {}))
    if not isinstance(source, str | os.PathLike):
        raise DtypeError(
            "`source` must be a path, the name of a package, a state dict or a module of torch; "
            f"got {type(source).__name__}."
        )
    path = weights_file(source, select)
    tensors, said = read_weights(path)
    beside = read_config(path.parent / "config.json")
    return _read(str(path), tensors, {**beside, **said, **(config or {})})


def _read(
    where: str, tensors: Mapping[str, AnyArray], config: dict[str, Any]
) -> TransformerWeights:
    # Files converted from TensorFlow call scale and shift of a norm so.
    names = {name: name.replace("Norm.gamma", "Norm.weight") for name in tensors}
    names = {name: new.replace("Norm.beta", "Norm.bias") for name, new in names.items()}
    try:
        family, prefix = _family(tensors, config)
        named = NamedTensors({names[name]: array for name, array in tensors.items()}, config)
        found = family.read(named, prefix)
    except RecordFormatError as error:
        raise RecordFormatError(
            f"`source` must be a transformer that is read here; {where}: {str(error).rstrip('.')}."
        ) from None
    assert isinstance(found, TransformerWeights)
    return found


def _family(tensors: Mapping[str, AnyArray], config: Mapping[str, Any]) -> tuple[ModuleType, str]:
    """The family whose mark is among the names, and what stands before it."""
    found = []
    for name in tensors:
        marked = [f for f in _FAMILIES if name == f.MARK or name.endswith(f".{f.MARK}")]
        if marked:  # The mark of one may end with that of another.
            family = max(marked, key=lambda family: len(family.MARK))
            found.append((family, name.removesuffix(family.MARK)))
    kind = config.get("model_type")
    if not found:
        some = ", ".join(f"`{name:.60}`" for name in sorted(tensors)[:3])
        said = "" if kind is None else f", of the type {kind!r:.40}"
        listed = f"{len(tensors)}, among them {some}{said}" if tensors else "none"
        raise RecordFormatError(f"no tensor is named as in {_SUPPORTED}; there are {listed}")
    if len(found) > 1:
        places = ", ".join(f"`{prefix}{family.MARK}`" for family, prefix in found[:3])
        raise RecordFormatError(
            f"it holds several stacks of layers: {places}; one of them is read, from its tensors"
        )
    family, prefix = found[0]
    if kind is not None and family.MODEL_TYPES and kind not in family.MODEL_TYPES:
        raise RecordFormatError(
            f"its type is {kind!r:.40}; with such names are read {', '.join(family.MODEL_TYPES)}"
        )
    return family, prefix


def weights_file(source: str | os.PathLike[str], select: str | None) -> Path:
    """Find the one file of weights that `source` and `select` of `load_checkpoint` mean."""
    path = Path(source)
    if path.is_file():
        if select is not None:
            raise ArgumentError(f"`select` must be None for a file; got {select!r}.")
        return path
    root = path if path.is_dir() else _package_folder(os.fspath(source))
    files = [file for file in root.iterdir() if _is_weights(file)]
    if select is not None or not files:
        files = [file for file in root.rglob("*") if _is_weights(file)]
    if select is not None:
        wanted = f"/{select.strip('/')}/"
        files = [file for file in files if wanted in f"/{file.relative_to(root).as_posix()}/"]
    files = _preferred(files)
    if len(files) != 1:
        names = sorted(file.relative_to(root).as_posix() for file in files)
        listed = f": {', '.join(names)[:1000]}; `select` one" if names else ""
        raise ArgumentError(
            f"`source` must hold one checkpoint; {root} holds {len(files)}{listed}."
        )
    return files[0]


def _package_folder(name: str) -> Path:
    spec = None
    if name.replace("-", "_").isidentifier() and name != "__main__":
        spec = find_spec(name.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        raise ArgumentError(
            f"`source` must be a file, a folder or an installed package; {name!r:.200} is none."
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _is_weights(file: Path) -> bool:
    is_index = file.name.endswith(tuple(f"{suffix}{INDEX}" for suffix in SUFFIXES))
    is_weights = file.suffix in SUFFIXES and not file.name.startswith(_NOT_WEIGHTS)
    return (is_index or is_weights) and file.is_file()


def _preferred(files: list[Path]) -> list[Path]:
    """Of each folder its indices, or else its files of the first kind that is there."""
    chosen: list[Path] = []
    for folder in sorted({file.parent for file in files}):
        inside = [file for file in files if file.parent == folder]
        kinds = [[f for f in inside if f.name.endswith(f"{s}{INDEX}")] for s in SUFFIXES]
        kinds += [[f for f in inside if f.suffix == s] for s in SUFFIXES]
        chosen += next(kind for kind in kinds if kind)
    return chosen
