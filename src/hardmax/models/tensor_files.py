"""Safetensors files with a JSON header: written in one step, read without trust.

The tensors are what they are; the header, one metadata entry, says how they fit together. Nothing
is ever executed while reading, and whoever reads asks for every tensor and field by name: one that
is missing or left over is refused.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.files import replacing
from hardmax.models.argmax_layers import AffineMap
from hardmax.typing import AnyArray

_METADATA_KEY = "hardmax"


def write_tensor_file(
    path: str | os.PathLike[str], header: Mapping[str, Any], tensors: Mapping[str, AnyArray]
) -> None:
    """Write tensors and their header; a crash or a full disk leaves an old file as it was."""
    from safetensors.numpy import save

    dense = {name: np.array(array, order="C") for name, array in tensors.items()}
    content = save(dense, {_METADATA_KEY: json.dumps(header, sort_keys=True)})
    with replacing(path) as stream:
        stream.write(content)


def read_tensors(path: str | os.PathLike[str]) -> tuple[str | None, dict[str, AnyArray]]:
    """Read the header, as text, and the tensors of any safetensors file.

    Returns:
        The header, None if the file has none of this library, and the tensors by name.

    Raises:
        RecordFormatError: If the file is not safetensors, or holds types NumPy does not have.
    """
    from safetensors import SafetensorError, safe_open

    with Path(path).open("rb"):
        pass  # A missing or unreadable file is reported as such, before its content is judged.
    try:
        with safe_open(path, framework="np") as file:
            header = (file.metadata() or {}).get(_METADATA_KEY)
            tensors = {name: np.array(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise RecordFormatError(
            f"`path` must be a safetensors file of numbers NumPy has; reading {path} failed: "
            f"{error}."
        ) from None
    return header, tensors


def read_tensor_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Read the fields of the header and the tensors that `write_tensor_file` wrote.

    Raises:
        RecordFormatError: If the file is not safetensors, has no header that is a JSON object, or
            has a tensor of another type than F64 (I64 for `starts`, `slots` and `reads`).
    """
    header, tensors = read_tensors(path)
    if header is None:
        raise RecordFormatError(
            f"`path` must hold a model; the metadata of {path} have no entry `{_METADATA_KEY}`."
        )
    for name, array in tensors.items():
        is_index = name.rpartition(".")[2] in ("starts", "slots", "reads")
        expected = np.int64 if is_index else np.float64
        if array.dtype != expected:
            raise RecordFormatError(
                f"`path` must hold a model; in {path} the tensor `{name}` has dtype {array.dtype} "
                f"in place of {np.dtype(expected)}."
            )
    try:
        fields = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise RecordFormatError(
            f"`path` must hold a model; the metadata of {path} are not JSON: {error}."
        ) from None
    if not isinstance(fields, dict):
        raise RecordFormatError(
            f"`path` must hold a model; the metadata of {path} are not a JSON object."
        )
    return fields, tensors


class TensorSource:
    """The tensors and fields of a file, each of which must be asked for exactly once."""

    def __init__(self, fields: dict[str, Any], tensors: Mapping[str, AnyArray]) -> None:
        self.fields = fields
        self._tensors = dict(tensors)
        self.n_tensors = len(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def tensor(self, name: str) -> AnyArray:
        """Take a tensor."""
        if name not in self._tensors:
            raise RecordFormatError(f"the tensor `{name}` is missing.")
        return self._tensors.pop(name)

    def arrays(self, prefix: str, names: tuple[str, ...]) -> dict[str, AnyArray]:
        """Take several tensors with a common prefix, by their own names."""
        return {name: self.tensor(prefix + name) for name in names}

    def affine(self, prefix: str) -> AffineMap:
        """Take an affine map."""
        return AffineMap(**self.arrays(prefix, ("weight", "bias")))

    def identity(self, prefix: str) -> AffineMap:
        """Take an identity, of which the file has only the bias."""
        bias = self.tensor(f"{prefix}bias")
        if bias.ndim != 1 or bias.any():
            raise RecordFormatError(f"the tensor `{prefix}bias` of an identity must be zeros.")
        return AffineMap.identity(len(bias))

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        refuse_rest({**self._tensors, **self.fields})


def refuse_rest(left: Mapping[str, object]) -> None:
    """Refuse fields or tensors that are left over."""
    if left:
        raise RecordFormatError(f"`{min(left)}` does not belong to such a model.")


def take_field(fields: dict[str, Any], name: str, kind: type) -> Any:
    """Take a field of one exact type out of a header."""
    value = fields.pop(name, None)
    if type(value) is not kind:
        raise RecordFormatError(f"`{name}` must be a {kind.__name__}; got {value!r:.60}.")
    return value
