"""What the operations of torch do to a signal: affine maps and activations, or a refusal.

A signal is what became of the input so far: a chain of affine maps and activations. The names are
those of `torch` and `torch.nn.functional`, as scripts and traced graphs write them.
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
    hard_tanh,
    leaky_relu,
    prelu,
    refusal,
    soft_shrink,
)
from hardmax.models.formats.layered_networks import Step
from hardmax.typing import FloatArray


@dataclass(eq=False)
class Signal:
    """What became of the input: the steps so far.

    Attributes:
        steps: Affine maps and activations, in order; none for the input itself.
        is_overwritten: Whether an operation in place has put its result where this was; who reads
            it after that reads something else, and is refused.
        limit: The limit on what the steps may take, if they come from a file.
    """

    steps: tuple[Step, ...] = ()
    is_overwritten: bool = False
    limit: SizeLimit | None = None

    def then(self, *steps: Step) -> "Signal":
        """Return the signal after more steps."""
        self.refuse_overwritten()
        return Signal((*self.steps, *steps), limit=self.limit)

    def refuse_overwritten(self) -> None:
        """Raise if the signal is no more."""
        if self.is_overwritten:
            raise ArgumentError("a signal is read after an operation in place has changed it.")


def apply_operation(name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Signal:
    """Apply an operation of torch to a signal.

    Args:
        name: Its name, such as `leaky_relu` or `linear`; one underscore at the end (in place) does
            not matter.
        arguments: What it is given: one signal among numbers, None and arrays.
        named: What it is given by name.

    Raises:
        ArgumentError: If it is not affine or an activation that is a maximum; the message says why.

    Examples:
        >>> apply_operation("leaky_relu", [Signal(), 0.5], {}).steps
        (Activation('leaky_relu(0.5)'),)
    """
    word = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if word not in _OPERATIONS:
        because = refusal(word) or "is neither affine nor an activation that this library reads"
        raise ArgumentError(f"`{name}` {because}.")
    parameters, build = _OPERATIONS[word]
    given = dict(parameters)
    given.update(zip(parameters, arguments, strict=False))
    given.update({key: value for key, value in named.items() if key in parameters})
    if len(arguments) > len(parameters) or not set(named) <= set(parameters):
        raise ArgumentError(f"`{name}` has other arguments than those this library knows.")
    if any(value is _NEEDED for value in given.values()):
        raise ArgumentError(f"`{name}` misses an argument.")
    if sum(isinstance(value, Signal) for value in given.values()) != 1:
        raise ArgumentError(
            f"`{name}` joins several tensors that depend on the input, as skip connections do, so "
            "its layers do not come one after another; hm.load_model and hm.from_torch read it."
        )
    if any(_is_nested(value) for value in given.values()):
        raise ArgumentError(f"`{name}` has lists of lists as arguments, which are not read.")
    signal = next(value for value in given.values() if isinstance(value, Signal))
    signal.refuse_overwritten()
    try:
        result = build(given)
        signal.is_overwritten = result is not signal and (word != name or is_in_place(given))
        return result
    except HardmaxError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ArgumentError(f"`{name}` has arguments this library does not know.") from None


def _is_nested(value: Any) -> bool:
    """Whether a value is a list with lists in it, which could stand for any number of entries."""
    return isinstance(value, list | tuple | dict) and not all(
        isinstance(item, int | float) for item in value
    )


def is_in_place(given: Mapping[str, Any]) -> bool:
    """Whether an operation is told to overwrite what it is given."""
    return given.get("inplace", False) is not False


def affine_of(weight: Any, bias: Any = None) -> AffineMap:
    """Return the affine map of a weight `(n_out, n_in)` and a bias `(n_out,)` or None."""
    matrix = np.asarray(weight, dtype=np.float64)
    if matrix.ndim != 2:
        raise ArgumentError(f"a weight must be a matrix; got shape {matrix.shape}.")
    n_out = len(matrix)
    offset = np.zeros(n_out) if bias is None else np.asarray(bias, dtype=np.float64)
    if offset.shape != (n_out,):
        raise ArgumentError(f"a bias must have shape ({n_out},); got {offset.shape}.")
    return AffineMap(np.ascontiguousarray(matrix.T), offset)


def scaled_by(signal: Signal, factor: Any) -> Signal:
    """Multiply a signal by a number, or each of its channels by its own."""
    factors = _vector(signal, factor)
    return signal.then(_square_map(signal, np.diag, factors, np.zeros(len(factors))))


def shifted_by(signal: Signal, offset: Any) -> Signal:
    """Add a number to a signal, or to each of its channels its own."""
    offsets = _vector(signal, offset)
    return signal.then(_square_map(signal, np.eye, len(offsets), offsets))


def _square_map(
    signal: Signal, make_matrix: Callable[[Any], FloatArray], argument: Any, offsets: FloatArray
) -> AffineMap:
    if signal.limit is not None:
        signal.limit.take(3 * offsets.nbytes * len(offsets))
    return AffineMap(make_matrix(argument), offsets)


def _width(signal: Signal) -> int:
    """How many channels a signal has: known after the first affine map."""
    maps = [step for step in signal.steps if isinstance(step, AffineMap)]
    if not maps:
        raise ArgumentError("a network must begin with a matrix; its input is changed before.")
    return maps[-1].dim_out


def _vector(signal: Signal, value: Any) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    n = _width(signal)
    if array.size not in (1, n) or array.shape[:-1] != (1,) * (array.ndim - 1):
        raise ArgumentError(
            f"a constant must be one number, or one for each of the {n} channels; got shape "
            f"{array.shape}."
        )
    return np.array(np.broadcast_to(array.ravel(), (n,)))


def _linear(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal.then(affine_of(given["weight"], given["bias"]))


def _matmul(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal.then(affine_of(np.asarray(given["other"]).T))


def _addmm(given: dict[str, Any]) -> Signal:
    if (given["beta"], given["alpha"]) != (1, 1):
        raise ArgumentError("`addmm` must have the factors 1 and 1.")
    signal: Signal = given["mat1"]
    return signal.then(affine_of(np.asarray(given["mat2"]).T, given["input"]))


def _flatten(given: dict[str, Any]) -> Signal:
    if (given["start_dim"], given["end_dim"]) not in ((1, -1), (1, 1), (-1, -1)):
        raise ArgumentError("`flatten` must keep the batch: start_dim = 1.")
    return _same(given)


def _threshold(given: dict[str, Any]) -> Signal:
    if given["threshold"] != given["value"]:
        raise ArgumentError(
            f"`threshold` jumps from {given['value']:g} to {given['threshold']:g}, so no network "
            "of maxima computes it."
        )
    signal: Signal = given["input"]
    return signal.then(clip(given["value"], None, f"threshold({given['value']:g})"))


def _added(given: dict[str, Any]) -> Signal:
    if given["alpha"] != 1:
        raise ArgumentError("`add` and `sub` must have the factor 1.")
    pair = given["input"], given["other"]
    signal, other = pair if isinstance(pair[0], Signal) else pair[::-1]
    return shifted_by(signal, other)


def _subtracted(given: dict[str, Any]) -> Signal:
    if given["alpha"] != 1:
        raise ArgumentError("`add` and `sub` must have the factor 1.")
    if isinstance(given["input"], Signal):
        return shifted_by(given["input"], -np.asarray(given["other"], dtype=np.float64))
    return shifted_by(scaled_by(given["other"], -1.0), given["input"])


def _multiplied(given: dict[str, Any]) -> Signal:
    pair = given["input"], given["other"]
    signal, other = pair if isinstance(pair[0], Signal) else pair[::-1]
    return scaled_by(signal, other)


def _same(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal


def _rrelu(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal.then(leaky_relu((given["lower"] + given["upper"]) / 2))


def _prelu(given: dict[str, Any]) -> Signal:
    signal: Signal = given["input"]
    return signal.then(prelu(given["weight"]))


def _element(build: Callable[..., Step], *names: str) -> Callable[[dict[str, Any]], Signal]:
    def applied(given: dict[str, Any]) -> Signal:
        signal: Signal = given["input"]
        return signal.then(build(*(given[name] for name in names)))

    return applied


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
    "relu": ({**_INPUT, **_PLACE}, _element(lambda: RELU)),
    "relu6": ({**_INPUT, **_PLACE}, _element(lambda: clip(0.0, 6.0, "relu6"))),
    "leaky_relu": (
        {**_INPUT, "negative_slope": 0.01, **_PLACE},
        _element(leaky_relu, "negative_slope"),
    ),
    "prelu": ({**_INPUT, "weight": _NEEDED}, _prelu),
    "rrelu": (
        {**_INPUT, "lower": 1 / 8, "upper": 1 / 3, "training": False, **_PLACE},
        _rrelu,
    ),
    "hardtanh": (
        {**_INPUT, "min_val": -1.0, "max_val": 1.0, **_PLACE},
        _element(hard_tanh, "min_val", "max_val"),
    ),
    "clamp": ({**_INPUT, "min": None, "max": None}, _element(clip, "min", "max")),
    "clip": ({**_INPUT, "min": None, "max": None}, _element(clip, "min", "max")),
    "clamp_min": ({**_INPUT, "min": _NEEDED}, _element(lambda low: clip(low, None), "min")),
    "clamp_max": ({**_INPUT, "max": _NEEDED}, _element(lambda high: clip(None, high), "max")),
    "abs": (_INPUT, _element(lambda: ABS)),
    "absolute": (_INPUT, _element(lambda: ABS)),
    "softshrink": ({**_INPUT, "lambd": 0.5}, _element(soft_shrink, "lambd")),
    "threshold": ({**_INPUT, "threshold": _NEEDED, "value": _NEEDED, **_PLACE}, _threshold),
    "neg": (_INPUT, lambda given: scaled_by(given["input"], -1.0)),
    "negative": (_INPUT, lambda given: scaled_by(given["input"], -1.0)),
    "add": ({**_INPUT, "other": _NEEDED, "alpha": 1}, _added),
    "sub": ({**_INPUT, "other": _NEEDED, "alpha": 1}, _subtracted),
    "mul": ({**_INPUT, "other": _NEEDED}, _multiplied),
    "flatten": ({**_INPUT, "start_dim": 0, "end_dim": -1}, _flatten),
    "dropout": ({**_INPUT, "p": 0.5, "training": True, **_PLACE}, _same),
    "alpha_dropout": ({**_INPUT, "p": 0.5, "training": False, **_PLACE}, _same),
    "contiguous": (_INPUT, _same),
    "detach": (_INPUT, _same),
}
