"""The shape of one input of a module, where the module determines it.

A module says how many numbers its first Linear layer takes, or how many channels its first
convolution; the sides of an image follow only where a later layer fits one size alone. Candidates
are tried on tensors without numbers (the device `meta`), with the module's own `forward`: a shape
counts as determined if it is the only one that fits, and nothing is guessed.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hardmax.models.formats.torch.layers import evaluated_copy

Fits = Callable[[tuple[int, ...]], bool]
_MOST_VECTORS = 256
MOST_SIDES = {1: 1024, 2: 320, 3: 64}
_ENOUGH = 9
_USUAL_SIDES = {1: (128, 64, 32), 2: (32, 28, 224, 64), 3: (16, 32, 64)}


@dataclass(frozen=True)
class InputShape:
    """What is known of the shape of one input.

    Attributes:
        shape: The shape, if it is determined; None if not.
        example: A shape that fits or might fit, for messages; None if unknown.
        reason: Why it is not determined, or how it was found.
    """

    shape: tuple[int, ...] | None
    example: tuple[int, ...] | None
    reason: str


def module_input_shape(torch: Any, module: Any) -> InputShape:
    """Find the shape of one input of a module, without the batch.

    Args:
        torch: The torch package.
        module: A `torch.nn.Module`; it is copied and run on tensors without numbers.
    """
    convolutions = [m for m in module.modules() if _n_axes(torch, m)]
    linear = [m.in_features for m in module.modules() if isinstance(m, torch.nn.Linear)]
    sizes = [n for p in module.parameters() for n in p.shape]
    kinds = [(_n_axes(torch, m), int(m.in_channels)) for m in convolutions]
    return solved_shape(_fits_on_meta(torch, module), kinds, linear, sizes)


def solved_shape(
    fits: Fits,
    convolutions: Iterable[tuple[int, int]],
    linear: Iterable[int],
    sizes: Iterable[int] = (),
) -> InputShape:
    """Find the one shape that fits.

    Args:
        fits: Whether a shape fits.
        convolutions: How many axes each convolution moves along, and its input channels.
        linear: How many numbers each Linear layer takes.
        sizes: Other sizes to be tried as the length of a vector, if none of `linear` fits.

    Examples:
        >>> solved_shape(lambda shape: shape == (4,), [], [4, 8]).shape
        (4,)
        >>> found = solved_shape(lambda shape: shape[0] == 1 and shape[1] // 4 == 7, [(2, 1)], [])
        >>> found.shape, found.example, found.reason
        (None, (1, 28, 28), 'square images with 28, 29, 30 or 31 pixels a side fit')
    """
    convolutions = list(dict.fromkeys(convolutions))
    for n_axes, channels in convolutions:
        found = fitting_sides(fits, n_axes, channels, MOST_SIDES[n_axes])
        if found:
            return describe_sides(n_axes, channels, found)
    for candidates in (linear, sizes):
        vectors = list(dict.fromkeys(int(n) for n in candidates))[:_MOST_VECTORS]
        # What also takes one number more does not determine how many it takes.
        found = [n for n in vectors if n > 0 and fits((n,)) and not fits((n + 1,))]
        if len(found) == 1:
            return InputShape((found[0],), (found[0],), "the only vector that fits")
        if found:
            fitting = _listed(sorted(found))
            return InputShape(None, (found[0],), f"vectors of {fitting} numbers fit")
    if convolutions:
        n_axes, channels = convolutions[0]
        return InputShape(None, None, f"no input of shape {_spelled(n_axes, channels)} was found")
    return InputShape(None, None, "no layer determines it")


def describe_sides(n_axes: int, channels: int, sides: list[int]) -> InputShape:
    """Return what is known of the shape of an image, given the sides that fit.

    Args:
        n_axes: The number of axes along which the convolution moves.
        channels: The number of channels of the image.
        sides: The sides that fit, at least one; of many, some.
    """
    if len(sides) == 1:
        shape = (channels, *sides * n_axes)
        word = {1: "signal", 2: "square image", 3: "cube"}[n_axes]
        return InputShape(shape, shape, f"the only {word} that fits")
    usual = [side for side in _USUAL_SIDES[n_axes] if side in sides]
    if n_axes == 2 and channels == 1 and 28 in sides:
        usual = [28]
    example = (channels, *(usual or sides)[:1] * n_axes)
    some = _listed(sides)
    each = {1: f"signals of length {some}", 2: f"square images with {some} pixels a side"}
    fitting = each.get(n_axes, f"cubes with {some} voxels a side")
    if len(sides) >= _ENOUGH:
        fitting = {1: "signals", 2: "images", 3: "volumes"}[n_axes] + " of many sizes"
    return InputShape(None, example, f"{fitting} fit")


def fitting_sides(fits: Fits, n_axes: int, channels: int, most: int) -> list[int]:
    """Return the sides that fit, up to `most`; of many, only the first and the usual ones."""
    found: list[int] = []
    for side in range(1, most + 1):
        if fits((channels, *[side] * n_axes)):
            found.append(side)
            if len(found) == _ENOUGH:
                return found + usual_sides(fits, n_axes, channels, side + 1)
    return found


def adjacent_sides(fits: Fits, n_axes: int, channels: int, least: int) -> list[int]:
    """Return consecutive sides that fit, from `least` on; of many, only the first and the usual."""
    found: list[int] = []
    while least + len(found) <= MOST_SIDES[n_axes]:
        side = least + len(found)
        if not fits((channels, *[side] * n_axes)):
            break
        found.append(side)
        if len(found) == _ENOUGH:
            return found + usual_sides(fits, n_axes, channels, side + 1)
    return found


def usual_sides(fits: Fits, n_axes: int, channels: int, least: int) -> list[int]:
    """Return the usual sides of images that fit and are no less than `least`."""
    usual = [side for side in _USUAL_SIDES[n_axes] if least <= side <= MOST_SIDES[n_axes]]
    return [side for side in usual if fits((channels, *[side] * n_axes))]


def _fits_on_meta(torch: Any, module: Any) -> Fits:
    """Run a copy of the module on tensors that have shapes and no numbers."""
    try:
        bare = evaluated_copy(torch, module).to("meta")
    except Exception:  # Whatever a module of the caller's does when it is copied or moved.
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
            except Exception:  # What does not fit raises anything.
                return False
        # A `view(-1, n)` of too large an image makes several inputs of it.
        return isinstance(result, torch.Tensor) and tuple(result.shape[:1]) == (1,)

    return fits


def _n_axes(torch: Any, module: Any) -> int:
    """How many axes a convolution moves along; 0 for other modules."""
    nn = torch.nn
    kinds: dict[Any, int] = {nn.Conv1d: 1, nn.Conv2d: 2, nn.Conv3d: 3}
    return next((n for kind, n in kinds.items() if isinstance(module, kind)), 0)


def _spelled(n_axes: int, channels: int) -> str:
    return f"({channels}, {', '.join(['side'] * n_axes)})"


def _listed(numbers: Sequence[int]) -> str:
    """Numbers in a sentence."""
    texts = [str(n) for n in numbers]
    return " or ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else texts[0]
