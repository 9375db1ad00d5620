"""The operations of torch on a signal, as affine maps and activations.

A signal is the input after a chain of affine maps and activations. Operations have their names from
`torch` and `torch.nn.functional`, as in scripts and traced graphs. Unsupported operations raise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._ground.size_limits import SizeLimit
from hardmax.errors import ArgumentError, HardmaxError
from hardmax.models.argmax import AffineMap
from hardmax.models.formats.activations import (
    ABS,
    RELU,
    clip,
    explain_refusal,
    hard_tanh,
    leaky_relu,
    prelu,
    soft_shrink,
)
from hardmax.models.formats.layered_networks import Step
from hardmax.typing import FloatArray


@dataclass(eq=False)
class Signal:
    """The input after some steps.

    Attributes:
        steps: The affine maps and activations, in order; empty for the input itself.
        is_overwritten: Whether an in-place operation has replaced the signal; reading it afterwards
            raises an error.
        limit: The limit on the memory of the steps, if they come from a file.
    """

    steps: tuple[Step, ...] = ()
    is_overwritten: bool = False
    limit: SizeLimit | None = None

    def then(self, *steps: Step) -> "Signal":
        """Return the signal after more steps."""
        self.refuse_overwritten()
        return Signal((*self.steps, *steps), limit=self.limit)

    def refuse_overwritten(self) -> None:
        """Raise if an in-place operation has replaced the signal."""
        if self.is_overwritten:
            raise ArgumentError("a signal is read after an in-place operation has changed it.")


def apply_operation(name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Signal:
    """Apply an operation of torch to a signal.

    Args:
        name: The name of the operation, such as `leaky_relu` or `linear`; an underscore at the end,
            which marks an in-place operation, is ignored.
        arguments: The positional arguments: one signal, and numbers, None and arrays.
        named: The keyword arguments.

    Raises:
        ArgumentError: If the operation is neither affine nor a supported activation; the message
            gives the reason.

    Examples:
        >>> apply_operation("leaky_relu", [Signal(), 0.5], {}).steps
        (Activation('leaky_relu(0.5)'),)
    """
    word = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if word not in _OPERATIONS:
        because = explain_refusal(word) or "is neither affine nor a supported activation"
        raise ArgumentError(f"`{name}` {because}.")
    parameters, build = _OPERATIONS[word]
    given = dict(parameters)
    given.update(zip(parameters, arguments, strict=False))
    given.update({key: value for key, value in named.items() if key in parameters})
    if len(arguments) > len(parameters) or not set(named) <= set(parameters):
        raise ArgumentError(f"`{name}` has arguments that are not supported.")
    if any(value is _NEEDED for value in given.values()):
        raise ArgumentError(f"`{name}` is missing an argument.")
    if sum(isinstance(value, Signal) for value in given.values()) != 1:
        raise ArgumentError(
            f"`{name}` joins several tensors that depend on the input, as in a skip connection, so "
            "the layers do not form a chain. Use hm.load_model or hm.from_torch."
        )
    if any(_is_nested(value) for value in given.values()):
        raise ArgumentError(f"`{name}` has nested lists as arguments, which are not supported.")
    signal = next(value for value in given.values() if isinstance(value, Signal))
    signal.refuse_overwritten()
    try:
        result = build(given)
        signal.is_overwritten = result is not signal and (word != name or is_in_place(given))
        return result
    except HardmaxError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ArgumentError(f"`{name}` has arguments that are not supported.") from None


def _is_nested(value: Any) -> bool:
    """Whether a value is a nested list, which could represent any number of entries."""
    return isinstance(value, list | tuple | dict) and not all(
        isinstance(item, int | float) for item in value
    )


def is_in_place(given: Mapping[str, Any]) -> bool:
    """Whether an operation overwrites its argument, according to `inplace`."""
    return given.get("inplace", False) is not False


def build_affine_map(weight: Any, bias: Any = None) -> AffineMap:
    """Return the affine map of a weight `(n_out, n_in)` and a bias `(n_out,)` or None."""
    matrix = np.asarray(weight, dtype=np.float64)
    if matrix.ndim != 2:
        raise ArgumentError(f"a weight must be a matrix; got shape {matrix.shape}.")
    n_out = len(matrix)
    offset = np.zeros(n_out) if bias is None else np.asarray(bias, dtype=np.float64)
    if offset.shape != (n_out,):
        raise ArgumentError(f"a bias must have shape ({n_out},); got {offset.shape}.")
    return AffineMap(np.ascontiguousarray(matrix.T), offset)


def scale(signal: Signal, factor: Any) -> Signal:
    """Multiply a signal by one number, or each channel by its own number."""
    factors = _read_vector(signal, factor)
    return signal.then(_square_map(signal, np.diag, factors, np.zeros(len(factors))))


def shift(signal: Signal, offset: Any) -> Signal:
    """Add one number to a signal, or to each channel its own number."""
    offsets = _read_vector(signal, offset)
    return signal.then(_square_map(signal, np.eye, len(offsets), offsets))


def _square_map(
    signal: Signal, make_matrix: Callable[[Any], FloatArray], argument: Any, offsets: FloatArray
) -> AffineMap:
    if signal.limit is not None:
        signal.limit.take(3 * offsets.nbytes * len(offsets))
    return AffineMap(make_matrix(argument), offsets)


def _count_channels(signal: Signal) -> int:
    """Return the number of channels, which is known after the first affine map."""
    maps = [step for step in signal.steps if isinstance(step, AffineMap)]
    if not maps:
        raise ArgumentError("a network must begin with a matrix; another operation precedes it.")
    return maps[-1].dim_out


def _read_vector(signal: Signal, value: Any) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    n = _count_channels(signal)
    if array.size not in (1, n) or array.shape[:-1] != (1,) * (array.ndim - 1):
        raise ArgumentError(
            f"a constant must be one number, or one number for each of the {n} channels; got shape "
            f"{array.shape}."
        )
    return np.array(np.broadcast_to(array.ravel(), (n,)))


def _linear(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal.then(build_affine_map(given["weight"], given["bias"]))


def _matmul(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal.then(build_affine_map(np.asarray(given["other"]).T))


def _addmm(given: dict[str, Any]) -> Signal:
    if (given["beta"], given["alpha"]) != (1, 1):
        raise ArgumentError("`addmm` must have alpha = beta = 1.")
    signal: Signal = given["mat1"]
    return signal.then(build_affine_map(np.asarray(given["mat2"]).T, given["input"]))


def _flatten(given: dict[str, Any]) -> Signal:
    if (given["start_dim"], given["end_dim"]) not in ((1, -1), (1, 1), (-1, -1)):
        raise ArgumentError("`flatten` must keep the batch: start_dim = 1.")
    return _return_input(given)


def _threshold(given: dict[str, Any]) -> Signal:
    if given["threshold"] != given["value"]:
        raise ArgumentError(
            f"`threshold` jumps from {given['value']:g} to {given['threshold']:g}, so no network "
            "of maxima computes it."
        )
    signal: Signal = given["input"]
    return signal.then(clip(given["value"], None, f"threshold({given['value']:g})"))


def _add(given: dict[str, Any]) -> Signal:
    if given["alpha"] != 1:
        raise ArgumentError("`add` and `sub` must have the factor 1.")
    pair = given["input"], given["other"]
    signal, other = pair if isinstance(pair[0], Signal) else pair[::-1]
    return shift(signal, other)


def _subtract(given: dict[str, Any]) -> Signal:
    if given["alpha"] != 1:
        raise ArgumentError("`add` and `sub` must have the factor 1.")
    if isinstance(given["input"], Signal):
        return shift(given["input"], -np.asarray(given["other"], dtype=np.float64))
    return shift(scale(given["other"], -1.0), given["input"])


def _multiply(given: dict[str, Any]) -> Signal:
    pair = given["input"], given["other"]
    signal, other = pair if isinstance(pair[0], Signal) else pair[::-1]
    return scale(signal, other)


def _return_input(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal


def _rrelu(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal.then(leaky_relu((given["lower"] + given["upper"]) / 2))


def _prelu(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal.then(prelu(given["weight"]))


def _make_elementwise(
    build: Callable[..., Step], *names: str
) -> Callable[[dict[str, Any]], Signal]:
    def apply(given: dict[str, Any]) -> Signal:
        signal: Signal = given["input"]
        return signal.then(build(*(given[name] for name in names)))

    return apply


_NEEDED: Any = object()
_INPUT = {"input": _NEEDED}
_PLACE = {"inplace": False}
_OPERATIONS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], Signal]]] = {
    "linear": ({**_INPUT, "weight": _NEEDED, "bias": None}, _linear),
    "matmul": ({**_INPUT, "other": _NEEDED}, _matmul),
    "mm": ({**_INPUT, "other": _NEEDED}, _matmul),
    "addmm": (
        {**_INPUT, "mat1": _NEEDED, "mat2": _NEEDED, "beta": 1, "alpha": 1},
        _addmm,
    ),
    "relu": ({**_INPUT, **_PLACE}, _make_elementwise(lambda: RELU)),
    "relu6": ({**_INPUT, **_PLACE}, _make_elementwise(lambda: clip(0.0, 6.0, "relu6"))),
    "leaky_relu": (
        {**_INPUT, "negative_slope": 0.01, **_PLACE},
        _make_elementwise(leaky_relu, "negative_slope"),
    ),
    "prelu": ({**_INPUT, "weight": _NEEDED}, _prelu),
    "rrelu": (
        {**_INPUT, "lower": 1 / 8, "upper": 1 / 3, "training": False, **_PLACE},
        _rrelu,
    ),
    "hardtanh": (
        {**_INPUT, "min_val": -1.0, "max_val": 1.0, **_PLACE},
        _make_elementwise(hard_tanh, "min_val", "max_val"),
    ),
    "clamp": ({**_INPUT, "min": None, "max": None}, _make_elementwise(clip, "min", "max")),
    "clip": ({**_INPUT, "min": None, "max": None}, _make_elementwise(clip, "min", "max")),
    "clamp_min": (
        {**_INPUT, "min": _NEEDED},
        _make_elementwise(lambda low: clip(low, None), "min"),
    ),
    "clamp_max": (
        {**_INPUT, "max": _NEEDED},
        _make_elementwise(lambda high: clip(None, high), "max"),
    ),
    "abs": (_INPUT, _make_elementwise(lambda: ABS)),
    "absolute": (_INPUT, _make_elementwise(lambda: ABS)),
    "softshrink": ({**_INPUT, "lambd": 0.5}, _make_elementwise(soft_shrink, "lambd")),
    "threshold": ({**_INPUT, "threshold": _NEEDED, "value": _NEEDED, **_PLACE}, _threshold),
    "neg": (_INPUT, lambda given: scale(given["input"], -1.0)),
    "negative": (_INPUT, lambda given: scale(given["input"], -1.0)),
    "add": ({**_INPUT, "other": _NEEDED, "alpha": 1}, _add),
    "sub": ({**_INPUT, "other": _NEEDED, "alpha": 1}, _subtract),
    "mul": ({**_INPUT, "other": _NEEDED}, _multiply),
    "flatten": ({**_INPUT, "start_dim": 0, "end_dim": -1}, _flatten),
    "dropout": ({**_INPUT, "p": 0.5, "training": True, **_PLACE}, _return_input),
    "alpha_dropout": ({**_INPUT, "p": 0.5, "training": False, **_PLACE}, _return_input),
    "contiguous": (_INPUT, _return_input),
    "detach": (_INPUT, _return_input),
}
