"""The tensors of a checkpoint, looked up by name and checked for shape."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hardmax.errors import RecordFormatError
from hardmax.models.checkpoints.weights import AttentionWeights, Linear, Norm, Rotary
from hardmax.typing import AnyArray

_ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
_LARGEST = 1e15
_KINDS: dict[str, tuple[type, ...]] = {
    "a whole number": (int,),
    "a number": (int, float),
    "true or false": (bool,),
    "a word": (str,),
}


class NamedTensors:
    """Tensors by name, and the configuration that belongs to them.

    Attributes:
        config: The configuration, with the fields of `config.json`.
    """

    def __init__(self, tensors: Mapping[str, AnyArray], config: Mapping[str, Any]) -> None:
        self._tensors, self.config = tensors, config
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a required tensor."""
        if name not in self._tensors:
            raise RecordFormatError(f"the tensor `{name}` is missing")
        return self._tensors[name].shape

    def take(self, name: str, *shape: int | None) -> AnyArray:
        """Take a tensor of finite floats; None in `shape` allows any size."""
        found = self.shape(name)
        if len(found) != len(shape) or any(
            want not in (None, got) for want, got in zip(shape, found, strict=True)
        ):
            wanted = ", ".join("any" if size is None else str(size) for size in shape)
            raise RecordFormatError(f"`{name}` must have shape ({wanted}); got {found}")
        array = self._tensors[name]
        if array.dtype.kind != "f":
            raise RecordFormatError(f"`{name}` must contain floats; got dtype {array.dtype}")
        array = array if array.dtype.itemsize >= 4 else array.astype(np.float32)
        if not np.isfinite(array).all():
            raise RecordFormatError(f"`{name}` contains numbers that are not finite")
        self._taken.add(name)
        return array

    def replace_rest(self, others: Mapping[str, AnyArray]) -> "NamedTensors":
        """Return the tensors that were not taken, together with others."""
        left = {name: array for name, array in self._tensors.items() if name not in self._taken}
        return NamedTensors({**left, **others}, self.config)

    def take_optional(self, name: str, *shape: int | None) -> AnyArray | None:
        """Take a tensor, or return None if it is missing."""
        return self.take(name, *shape) if name in self._tensors else None

    def take_linear(self, name: str, n_in: int | None, n_out: int | None) -> Linear:
        """Take a layer that is stored as in torch, `(n_out, n_in)`, and its bias if it has one."""
        weight = self.take(f"{name}.weight", n_out, n_in).T
        return Linear(weight, self.take_optional(f"{name}.bias", weight.shape[1]))

    def take_layer_norm(self, name: str, d: int, epsilon: float) -> Norm:
        """Take a layer norm."""
        shift = self.take_optional(f"{name}.bias", d)
        return Norm("layer", self.take(f"{name}.weight", d), shift, epsilon)

    def count_layers(self, pattern: str, stated: str) -> int:
        """Count layers by a name that contains their number; the configuration must agree."""
        n = 0
        while pattern.format(n) in self._tensors:
            n += 1
        expected = self.read_integer(stated, n)
        if expected != n:
            missing = f": `{pattern.format(n)}` is missing" if expected > n else ""
            raise RecordFormatError(
                f"`{stated}` is {expected}, but the number of layers is {n}{missing}"
            )
        return n

    def finish(self, *prefixes: str, passed_over: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Raise if a tensor of the layers was not taken; return the other names that were not.

        Args:
            prefixes: The prefixes of names that must all have been taken.
            passed_over: The suffixes of names that are exempt, such as stored masks.
        """
        left = [name for name in self._tensors if name not in self._taken]
        for name in left:
            if name.startswith(prefixes) and not name.endswith(passed_over or ("\0",)):
                raise RecordFormatError(f"`{name}` does not belong to a model of this family")
        return tuple(sorted(left))

    def read_integer(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """Return an integer of the configuration."""
        value: int = self._read_setting(name, default, "a whole number")
        if value < least:
            raise RecordFormatError(f"`{name}` must be at least {least}; got {value}")
        return value

    def read_number(self, name: str, default: float | None = None) -> float:
        """Return a number of the configuration, which must be at least 0."""
        value = self._read_setting(name, default, "a number")
        if not 0 <= value <= _LARGEST:
            raise RecordFormatError(f"`{name}` must be from 0 to {_LARGEST:g}; got {value!r:.40}")
        return float(value)

    def read_flag(self, name: str, default: bool) -> bool:
        """Return a boolean of the configuration."""
        return bool(self._read_setting(name, default, "true or false"))

    def read_activation(self, name: str, default: str) -> str:
        """Return the activation, with the name that `MlpWeights` uses."""
        word = self._read_setting(name, default, "a word")
        if word not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise RecordFormatError(f"`{name}` must be one of {known}; got {word!r:.40}")
        return _ACTIVATIONS[word]

    def _read_setting(self, name: str, default: Any, kind: str) -> Any:
        value = self.config.get(name)
        value = default if value is None else value
        if value is None:
            raise RecordFormatError(
                f"the files do not contain `{name}`; pass it as config={{{name!r}: ...}}"
            )
        if not isinstance(value, _KINDS[kind]) or (
            isinstance(value, bool) and kind != "true or false"
        ):
            raise RecordFormatError(f"`{name}` must be {kind}; got {value!r:.40}")
        return value


def split_heads(layer: Linear, n_heads: int) -> tuple[AnyArray, AnyArray | None]:
    """Split a layer into weights `(n_heads, d, d_k)` and biases `(n_heads, d_k)` of its heads."""
    d, width = layer.weight.shape
    if width % n_heads:
        raise RecordFormatError(f"{width} columns cannot be split into {n_heads} heads")
    weight = layer.weight.reshape(d, n_heads, width // n_heads).transpose(1, 0, 2)
    return weight, None if layer.bias is None else layer.bias.reshape(n_heads, -1)


def build_attention(
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    n_heads: int,
    n_kv_heads: int | None = None,
    *,
    rotary: Rotary | None = None,
    is_causal: bool = False,
    window: int | None = None,
    temperature: float | None = None,
    query_norm: Norm | None = None,
    key_norm: Norm | None = None,
) -> AttentionWeights:
    """Split the four layers of an attention into heads.

    Without `temperature`, scores are divided by the square root of d_k.
    """
    n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
    if n_heads % n_kv_heads:
        raise RecordFormatError(f"{n_heads} query heads cannot share {n_kv_heads} key heads")
    query_weight, query_bias = split_heads(query, n_heads)
    key_weight, key_bias = split_heads(key, n_kv_heads)
    value_weight, value_bias = split_heads(value, n_kv_heads)
    width, d = output.weight.shape
    d_k, d_v = query_weight.shape[2], value_weight.shape[2]
    if key_weight.shape[2] != d_k or width != n_heads * d_v:
        raise RecordFormatError(
            f"the sizes of heads do not match: {d_k} for queries, {key_weight.shape[2]} for keys, "
            f"{d_v} for values, and an output layer with {width} inputs"
        )
    return AttentionWeights(
        query_weight,
        key_weight,
        value_weight,
        output.weight.reshape(n_heads, d_v, d),
        query_bias,
        key_bias,
        value_bias,
        output.bias,
        rotary,
        is_causal,
        window,
        float(np.sqrt(d_k)) if temperature is None else temperature,
        query_norm,
        key_norm,
    )
