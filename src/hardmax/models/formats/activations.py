r"""Piecewise linear activation functions, expressed as maxima.

A continuous piecewise linear function of one variable is a composition of maxima of affine
functions: $\mathrm{clip}(z) = -\max(-\max(z, l), -h)$; a leaky ReLU is $\max(z, az)$, or
$-\max(-z, -az)$ if $a > 1$. An `Activation` lists these maxima in stages; each stage is a sum of a
few maxima per channel. Nothing is rounded, so a network with such activations is a network of
maxima (`layered_networks`). Functions that are not piecewise linear, or not continuous, are
refused.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hardmax._ground.arguments import Sizes, number
from hardmax._ground.display import html_card
from hardmax.errors import ArgumentError, DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.typing import ArrayLike


@dataclass(frozen=True)
class MaxUnit:
    r"""A signed maximum $\sigma \max_k (\alpha_k z + \gamma_k)$ of one variable.

    Attributes:
        sign: The $\sigma$, 1.0 or -1.0.
        pieces: The pairs $(\alpha_k, \gamma_k)$, at least one.

    Examples:
        >>> leaky_relu(0.5).stages[0][0][0]
        MaxUnit(sign=1.0, pieces=((1.0, 0.0), (0.5, 0.0)))
    """

    sign: float
    pieces: tuple[tuple[float, float], ...]

    _repr_html_ = html_card


Stage = tuple[tuple[MaxUnit, ...], ...]
"""The units whose sum each channel becomes; one entry per channel, or one for all channels."""


@dataclass(frozen=True)
class Activation:
    """A continuous piecewise linear function, applied to each entry of a vector.

    Attributes:
        name: The notation, such as `leaky_relu(0.2)`. `read_activation` accepts it, except for a
            `prelu` with several slopes.
        stages: The stages, in order; empty for the identity.

    Examples:
        >>> read_activation("relu6")
        Activation('relu6')
        >>> read_activation("relu6").stages[1]
        ((MaxUnit(sign=-1.0, pieces=((-1.0, 0.0), (0.0, -6.0))),),)
    """

    name: str
    stages: tuple[Stage, ...]

    _repr_html_ = html_card

    def __repr__(self) -> str:
        return f"Activation({self.name!r})"

    def __str__(self) -> str:
        return self.name

    @property
    def n_channels(self) -> int | None:
        """The number of channels; None if the activation treats any number of them alike."""
        sizes = {len(stage) for stage in self.stages if len(stage) != 1}
        return max(sizes, default=None)

    def refuse_other_sizes(self, n: int) -> None:
        """Raise if the activation cannot be applied to vectors of length `n`."""
        if self.n_channels not in (None, n):
            raise ShapeMismatchError(
                f"`{self.name}` must have one slope, or one for each of the {n} channels; got "
                f"{self.n_channels}."
            )


IDENTITY = Activation("identity", ())
RELU = Activation("relu", (((MaxUnit(1.0, ((1.0, 0.0), (0.0, 0.0))),),),))
ABS = Activation("abs", (((MaxUnit(1.0, ((1.0, 0.0), (-1.0, 0.0))),),),))


def leaky_relu(slope: float = 0.01) -> Activation:
    r"""Return $z$ for $z \ge 0$ and $az$ for $z < 0$.

    Args:
        slope: The $a$, of any sign and size.

    Examples:
        >>> leaky_relu(3.0).stages
        (((MaxUnit(sign=-1.0, pieces=((-1.0, 0.0), (-3.0, 0.0))),),),)
    """
    slope = number("slope", slope)
    return Activation(f"leaky_relu({_format_number(slope)})", (((_leaky_unit(slope),),),))


def prelu(slopes: ArrayLike) -> Activation:
    """Return leaky ReLUs with learned slopes: one number, or one per channel with shape `(n,)`."""
    given = Sizes().floats("slopes", [slopes] if _is_number(slopes) else slopes, ("n_channels",))
    units: Stage = tuple((_leaky_unit(float(slope)),) for slope in given)
    size = _format_number(float(given[0])) if len(given) == 1 else f"{len(given)} slopes"
    return Activation(f"prelu({size})", (units,))


def clip(low: float | None, high: float | None, name: str | None = None) -> Activation:
    r"""Return $\min(\max(z, l), h)$, in this order, as in torch and ONNX.

    Args:
        low: The $l$, finite; None or $-\infty$ for no lower limit.
        high: The $h$, finite; None or $\infty$ for no upper limit.
        name: The notation, if not `clip(low, high)`.
    """
    least = number("low", -float("inf") if low is None else low, infinity="negative")
    most = number("high", float("inf") if high is None else high, infinity="positive")
    stages: list[Stage] = []
    if least > -float("inf"):
        stages.append(((MaxUnit(1.0, ((1.0, 0.0), (0.0, least))),),))
    if most < float("inf"):
        stages.append(((MaxUnit(-1.0, ((-1.0, 0.0), (0.0, -most))),),))
    return Activation(
        name or f"clip({_format_number(least)}, {_format_number(most)})", tuple(stages)
    )


def hard_tanh(low: float = -1.0, high: float = 1.0) -> Activation:
    """Return `clip` under its name in torch."""
    plain = (low, high) == (-1.0, 1.0)
    return clip(
        low,
        high,
        "hardtanh" if plain else f"hardtanh({_format_number(low)}, {_format_number(high)})",
    )


def soft_shrink(threshold: float = 0.5) -> Activation:
    r"""Return $\max(z - \lambda, 0) - \max(-z - \lambda, 0)$ with a threshold $\lambda \ge 0$."""
    step = number("threshold", threshold, at_least=0.0)
    units = (MaxUnit(1.0, ((1.0, -step), (0.0, 0.0))), MaxUnit(-1.0, ((-1.0, -step), (0.0, 0.0))))
    return Activation(f"softshrink({_format_number(step)})", ((units,),))


def hard_sigmoid(alpha: float, beta: float) -> Activation:
    r"""Return $\min(\max(\alpha z + \beta, 0), 1)$, the hard sigmoid of ONNX."""
    slope, offset = number("alpha", alpha), number("beta", beta)
    first: Stage = ((MaxUnit(1.0, ((slope, offset), (0.0, 0.0))),),)
    return Activation(
        f"hardsigmoid({_format_number(slope)}, {_format_number(offset)})",
        (first, *clip(None, 1.0).stages),
    )


NOT_PIECEWISE_LINEAR = frozenset([
    "celu", "elu", "erf", "exp", "gelu", "glu", "hardswish", "hswish", "log_softmax",
    "logsigmoid", "logsoftmax", "mish", "quickgelu", "selu", "sigmoid", "silu", "sin",
    "softmax", "softmin", "softplus", "softsign", "sqrt", "swish", "tanh", "tanhshrink",
])  # fmt: skip
JUMPING = frozenset(["hardshrink", "heaviside", "sign", "step", "round", "floor", "ceil"])


def explain_refusal(name: str) -> str | None:
    """Return the reason why an activation of this name is not a network of maxima, if known.

    Examples:
        >>> explain_refusal("GELU")
        'is not piecewise linear, so no network of maxima computes it'
        >>> explain_refusal("relu")
    """
    word = re.sub(r"[^a-z0-9_]", "", name.lower())
    if {word, word.replace("_", "")} & NOT_PIECEWISE_LINEAR:
        return "is not piecewise linear, so no network of maxima computes it"
    return "jumps, so no network of maxima computes it" if word in JUMPING else None


def read_activation(value: Any, name: str = "activations") -> Activation:
    """Read an activation from a word such as `relu`, `leaky_relu(0.2)` or `hardtanh(-1, 1)`.

    The words are `identity` (also `none`, `linear`), `relu`, `leaky_relu(slope)`, `prelu(slope)`,
    `abs`, `relu6`, `hardtanh(low, high)`, `clip(low, high)`, `softshrink(threshold)` and
    `hardsigmoid(alpha, beta)`. Optional numbers have the same defaults as in torch.

    Args:
        value: The word, or an `Activation`, which is returned unchanged.
        name: The name of the argument, for messages.

    Raises:
        ArgumentError: If the word is unknown; the message says if the function is not piecewise
            linear.
        DtypeError: If `value` is not a word.

    Examples:
        >>> read_activation("hardtanh(-1, 2)"), read_activation("leaky_relu")
        (Activation('hardtanh(-1, 2)'), Activation('leaky_relu(0.01)'))
    """
    if isinstance(value, Activation):
        return value
    if not isinstance(value, str):
        raise DtypeError(f"`{name}` must be words such as relu; got {type(value).__name__}.")
    match = re.fullmatch(r"\s*([A-Za-z_0-9]+)\s*(?:\(([^()]*)\))?\s*", value)
    word = match[1].lower() if match else ""
    if match is None or word not in _WORDS:
        because = explain_refusal(word or value)
        reason = f"{value.strip()!r:.60} {because}." if because else f"got {value!r:.60}."
        raise ArgumentError(f"`{name}` must be among {', '.join(_WORDS)}; {reason}")
    build, least, most = _WORDS[word]
    numbers = [_parse_number(name, text) for text in (match[2] or "").split(",") if text.strip()]
    if not least <= len(numbers) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise ArgumentError(
            f"`{name}`: {word} must have {wanted} numbers in parentheses; got {value!r:.60}."
        )
    return build(*numbers)


def read_activations(
    value: Any, last: Any, n_layers: int, name: str = "activations"
) -> list[Activation]:
    """Read the activation after each of `n_layers` affine layers.

    Args:
        value: One activation for all layers but the last, or one for each layer including the last,
            as a sequence or as words separated by commas.
        last: The activation after the last layer if `value` is a single activation; None: none.
        n_layers: The number of layers.
        name: The name of the argument, for messages.

    Examples:
        >>> read_activations("relu", None, 3)
        [Activation('relu'), Activation('relu'), Activation('identity')]
        >>> read_activations("hardtanh(-1, 1), none", None, 2)
        [Activation('hardtanh'), Activation('identity')]
    """
    read = [read_activation(item, name) for item in split_activations(value)]
    if not read:
        raise EmptyInputError(f"`{name}` must have at least one entry; got none.")
    ending = IDENTITY if last is None else read_activation(last, f"last_{_to_singular(name)}")
    if len(read) == 1 and (n_layers > 1 or last is not None):
        return [*read * (n_layers - 1), ending]
    if len(read) == n_layers and last is None:
        return read
    if len(read) == n_layers:
        raise ArgumentError(
            f"`last_{_to_singular(name)}` must be None if `{name}` has one activation for each "
            f"layer; got {ending}."
        )
    raise ShapeMismatchError(
        f"`{name}` must be a single activation, or one for each of the {n_layers} layers; got "
        f"{len(read)}."
    )


def split_activations(value: Any) -> list[Any]:
    """Return a list of activations from a single one, a sequence, or words separated by commas.

    Examples:
        >>> split_activations("relu, clip(0, 6)")
        ['relu', ' clip(0, 6)']
    """
    if isinstance(value, str):
        return re.split(r",(?![^(]*\))", value)
    return list(value) if isinstance(value, Sequence) else [value]


def _to_singular(name: str) -> str:
    return name.removesuffix("s")


def _leaky_unit(slope: float) -> MaxUnit:
    """Return a leaky ReLU, which is convex for slopes up to 1 and concave above."""
    sign = 1.0 if slope <= 1.0 else -1.0
    return MaxUnit(sign, ((sign, 0.0), (sign * slope, 0.0)))


def _format_number(value: float) -> str:
    """Format a number with the fewest digits that identify it."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _parse_number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(
            f"`{name}` must have numbers in parentheses; got {text.strip()!r:.60}."
        ) from None


_WORDS: dict[str, tuple[Callable[..., Activation], int, int]] = {
    "relu": (lambda: RELU, 0, 0),
    "identity": (lambda: IDENTITY, 0, 0),
    "none": (lambda: IDENTITY, 0, 0),
    "linear": (lambda: IDENTITY, 0, 0),
    "leaky_relu": (leaky_relu, 0, 1),
    "prelu": (prelu, 1, 1),
    "abs": (lambda: ABS, 0, 0),
    "relu6": (lambda: clip(0.0, 6.0, "relu6"), 0, 0),
    "hardtanh": (hard_tanh, 0, 2),
    "clip": (clip, 2, 2),
    "softshrink": (soft_shrink, 0, 1),
    "hardsigmoid": (hard_sigmoid, 2, 2),
}
