"""Aliases: what an array holds, and what stands for a model or a domain.

To a type checker they are unions, as `typing.pyi` spells them out. At run time they are names only,
so that `help` shows `FloatArray` and `ModelLike`, not the unions these stand for. Shapes are named
in docstrings.
"""

import numpy as np


class _Alias(type):
    """A name for a type; what is an instance of that type is one of the name."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.meaning)


class ArrayLike(metaclass=_Alias):
    """What `numpy.asarray` reads: an array, a number, or nested sequences of numbers.

    Examples:
        >>> isinstance([[1, 2], [3, 4]], ArrayLike)
        True
    """

    meaning = object


class FloatArray(metaclass=_Alias):
    """An array of float64.

    Examples:
        >>> isinstance(np.zeros(2), FloatArray)
        True
    """

    meaning = np.ndarray


class IntArray(metaclass=_Alias):
    """An array of int64.

    Examples:
        >>> isinstance(np.arange(3), IntArray)
        True
    """

    meaning = np.ndarray


class BoolArray(metaclass=_Alias):
    """An array of booleans.

    Examples:
        >>> isinstance(np.array([True]), BoolArray)
        True
    """

    meaning = np.ndarray


class SignArray(metaclass=_Alias):
    """An array of int8 with entries -1, 0, +1.

    Examples:
        >>> isinstance(np.array([-1, 0, 1], np.int8), SignArray)
        True
    """

    meaning = np.ndarray


class WideArray(metaclass=_Alias):
    """An array of Python integers of any size, or of rationals.

    Examples:
        >>> isinstance(np.array([2**99], object), WideArray)
        True
    """

    meaning = np.ndarray


class AnyArray(metaclass=_Alias):
    """An array of anything.

    Examples:
        >>> isinstance(np.array([1.5, 2.0]), AnyArray)
        True
    """

    meaning = np.ndarray


class TorchModule(metaclass=_Alias):
    """A `torch.nn.Module`, which `from_torch` reads.

    Examples:
        >>> def layers(net: TorchModule) -> list[str]:
        ...     return [name for name, _ in net.named_modules()]
    """

    meaning = object


class ModelLike(metaclass=_Alias):
    """A model, or what is read as one.

    One of: a `ReluNetwork`, `MaxoutNetwork`, `HardTransformer`, `Block`, `AttentionHead`,
    `GraphNetwork` or `ArgmaxNetwork`; any object with an `ArgmaxNetwork` as its `network`; the path
    of a file that `load_model` reads, as `str` or `Path`; a torch module, or a list of them, that
    `from_torch` reads.

    Examples:
        >>> import hardmax as hm
        >>> def count(model: ModelLike) -> int:
        ...     return hm.enumerate_regions(model, "box:-1,1^2").n_cells
        >>> count(hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]]))
        4
    """

    meaning = object


class DomainLike(metaclass=_Alias):
    """A domain, or its text: `Box([-1, -1], [1, 1])` or `"box:-1,1^2"`.

    The domains are `Box`, `WholeSpace`, `Polytope`, `Slice`, `Segment`, `Ray` and `Line`.
    `parse_domain` lists the texts.

    Examples:
        >>> import hardmax as hm
        >>> def sides(domain: DomainLike) -> str:
        ...     return hm.geometry.domain_text(domain)
        >>> sides("box:-1,1;-1,1"), sides(hm.Box([-1, -1], [1, 1]))
        ('box:-1,1^2', 'box:-1,1^2')
    """

    meaning = object


__all__ = [
    "AnyArray",
    "ArrayLike",
    "BoolArray",
    "DomainLike",
    "FloatArray",
    "IntArray",
    "ModelLike",
    "SignArray",
    "TorchModule",
    "WideArray",
]
