"""Inference of the shape of one input of a module, if the module determines it.

A module fixes the number of inputs of its first Linear layer, or the number of channels of its
first convolution. The size of an image is only determined if a later layer fits exactly one size.
Candidates are passed to the module's own `forward` as tensors without data (on the device `meta`).
A shape counts as determined if it is the only one that fits; shapes are never guessed.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hardmax.models.formats.torch.layers import copy_for_evaluation

Fits = Callable[[tuple[int, ...]], bool]
_MOST_VECTORS = 256
MOST_SIDES = {1: 1024, 2: 320, 3: 64}
_ENOUGH = 9
_USUAL_SIDES = {1: (128, 64, 32), 2: (32, 28, 224, 64), 3: (16, 32, 64)}


@dataclass(frozen=True)
class InputShape:
    """The result of the inference of an input shape.

    Attributes:
        shape: The shape, or None if it is not determined.
        example: A shape that fits or might fit, for messages; None if no such shape is known.
        reason: The reason why the shape is determined or not determined.
    """

    shape: tuple[int, ...] | None
    example: tuple[int, ...] | None
    reason: str


def find_input_shape(torch: Any, module: Any) -> InputShape:
    """Find the shape of one input of a module, without the batch axis.

    Args:
        torch: The torch package.
        module: A `torch.nn.Module`; a copy of it is run on tensors without data.
    """
    convolutions = [m for m in module.modules() if _count_axes(torch, m)]
    linear = [m.in_features for m in module.modules() if isinstance(m, torch.nn.Linear)]
    sizes = [n for p in module.parameters() for n in p.shape]
    kinds = [(_count_axes(torch, m), int(m.in_channels)) for m in convolutions]
    return solve_shape(_make_meta_check(torch, module), kinds, linear, sizes)


def solve_shape(
    fits: Fits,
    convolutions: Iterable[tuple[int, int]],
    linear: Iterable[int],
    sizes: Iterable[int] = (),
) -> InputShape:
    """Find the only shape that fits.

    Args:
        fits: A function that tests whether a shape fits.
        convolutions: The number of spatial axes and of input channels of each convolution.
        linear: The number of inputs of each Linear layer.
        sizes: Other vector lengths to try if none of `linear` fits.

    Examples:
        >>> solve_shape(lambda shape: shape == (4,), [], [4, 8]).shape
        (4,)
        >>> found = solve_shape(lambda shape: shape[0] == 1 and shape[1] // 4 == 7, [(2, 1)], [])
        >>> found.shape, found.example, found.reason
        (None, (1, 28, 28), 'square images with 28, 29, 30 or 31 pixels a side fit')
    """
    convolutions = list(dict.fromkeys(convolutions))
    for n_axes, channels in convolutions:
        found = find_sides(fits, n_axes, channels, MOST_SIDES[n_axes])
        if found:
            return describe_sides(n_axes, channels, found)
    for candidates in (linear, sizes):
        vectors = list(dict.fromkeys(int(n) for n in candidates))[:_MOST_VECTORS]
        # A module that also accepts n + 1 numbers does not determine the length of its input.
        found = [n for n in vectors if n > 0 and fits((n,)) and not fits((n + 1,))]
        if len(found) == 1:
            return InputShape((found[0],), (found[0],), "the only vector that fits")
        if found:
            fitting = _join_numbers(sorted(found))
            return InputShape(None, (found[0],), f"vectors of {fitting} numbers fit")
    if convolutions:
        n_axes, channels = convolutions[0]
        return InputShape(
            None, None, f"no input of shape {_format_shape(n_axes, channels)} was found"
        )
    return InputShape(None, None, "no layer determines it")


def describe_sides(n_axes: int, channels: int, sides: list[int]) -> InputShape:
    """Return the result for images, given the sides that fit.

    Args:
        n_axes: The number of spatial axes of the image.
        channels: The number of channels of the image.
        sides: At least one side that fits; if many fit, some of them.
    """
    if len(sides) == 1:
        shape = (channels, *sides * n_axes)
        word = {1: "signal", 2: "square image", 3: "cube"}[n_axes]
        return InputShape(shape, shape, f"the only {word} that fits")
    usual = [side for side in _USUAL_SIDES[n_axes] if side in sides]
    if n_axes == 2 and channels == 1 and 28 in sides:
        usual = [28]
    example = (channels, *(usual or sides)[:1] * n_axes)
    some = _join_numbers(sides)
    each = {1: f"signals of length {some}", 2: f"square images with {some} pixels a side"}
    fitting = each.get(n_axes, f"cubes with {some} voxels a side")
    if len(sides) >= _ENOUGH:
        fitting = {1: "signals", 2: "images", 3: "volumes"}[n_axes] + " of many sizes"
    return InputShape(None, example, f"{fitting} fit")


def find_sides(fits: Fits, n_axes: int, channels: int, most: int) -> list[int]:
    """Return the sides up to `most` that fit; if there are many, the first and some usual ones."""
    found: list[int] = []
    for side in range(1, most + 1):
        if fits((channels, *[side] * n_axes)):
            found.append(side)
            if len(found) == _ENOUGH:
                return found + find_usual_sides(fits, n_axes, channels, side + 1)
    return found


def find_adjacent_sides(fits: Fits, n_axes: int, channels: int, least: int) -> list[int]:
    """Return the consecutive sides from `least` on that fit; if there are many, only some."""
    found: list[int] = []
    while least + len(found) <= MOST_SIDES[n_axes]:
        side = least + len(found)
        if not fits((channels, *[side] * n_axes)):
            break
        found.append(side)
        if len(found) == _ENOUGH:
            return found + find_usual_sides(fits, n_axes, channels, side + 1)
    return found


def find_usual_sides(fits: Fits, n_axes: int, channels: int, least: int) -> list[int]:
    """Return the usual sides of images that fit and are at least `least`."""
    usual = [side for side in _USUAL_SIDES[n_axes] if least <= side <= MOST_SIDES[n_axes]]
    return [side for side in usual if fits((channels, *[side] * n_axes))]


def _make_meta_check(torch: Any, module: Any) -> Fits:
    """Return a test that runs a copy of the module on tensors without data."""
    try:
        bare = copy_for_evaluation(torch, module).to("meta")
    except Exception:  # A module of the caller may raise any type when it is copied or moved.
        return lambda shape: False
    for part in bare.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor):
                setattr(part, name, value.to("meta"))
    kinds = [t.dtype for t in (*bare.parameters(), *bare.buffers()) if t.is_floating_point()]
    dtype = kinds[0] if kinds else torch.float32

    def fits(shape: tuple[int, ...]) -> bool:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(torch.device("meta"))
            stack.enter_context(warnings.catch_warnings())
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            warnings.simplefilter("ignore")
            try:
                result = bare(torch.empty((1, *shape), dtype=dtype))
            except Exception:  # A shape that does not fit may raise any type.
                return False
        # A `view(-1, n)` of an image that is too large turns it into several inputs.
        return isinstance(result, torch.Tensor) and tuple(result.shape[:1]) == (1,)

    return fits


def _count_axes(torch: Any, module: Any) -> int:
    """Return the number of spatial axes of a convolution; 0 for other modules."""
    nn = torch.nn
    kinds: dict[Any, int] = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}
    return next((n for kind, n in kinds.items() if isinstance(module, kind)), 0)


def _format_shape(n_axes: int, channels: int) -> str:
    return f"({channels}, {', '.join(['side'] * n_axes)})"


def _join_numbers(numbers: Sequence[int]) -> str:
    """Join numbers for use in a sentence."""
    texts = [str(n) for n in numbers]
    return " or ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]
