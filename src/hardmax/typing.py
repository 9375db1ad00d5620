"""Type aliases for arrays by their dtype, and for arguments that are models or domains.

For a type checker they are the unions in `typing.pyi`. At run time they are only names, so that
`help` shows `FloatArray` and `ModelLike` instead of long unions. Docstrings state the shapes of
arrays.
"""

import numpy as np


class _Alias(type):
    """A metaclass that gives a type another name for `isinstance`."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.meaning)


class ArrayLike(metaclass=_Alias):
    """A valid argument of `numpy.asarray`: an array, a number, or nested sequences of numbers.

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
    """An array of int8 with entries -1, 0 and +1.

    Examples:
        >>> isinstance(np.array([-1, 0, 1], np.int8), SignArray)
        True
    """

    meaning = np.ndarray


class WideArray(metaclass=_Alias):
    """An object array of Python integers of any size, or of rationals.

    Examples:
        >>> isinstance(np.array([2**99], object), WideArray)
        True
    """

    meaning = np.ndarray


class AnyArray(metaclass=_Alias):
    """An array of any dtype.

    Examples:
        >>> isinstance(np.array([1.5, 2.0]), AnyArray)
        True
    """

    meaning = np.ndarray


class TorchModule(metaclass=_Alias):
    """A `torch.nn.Module`, which `from_torch` converts.

    Examples:
        >>> def layers(net: TorchModule) -> list[str]:
        ...     return [name for name, _ in net.named_modules()]
    """

    meaning = object


class ModelLike(metaclass=_Alias):
    """A model, or an object that can be converted to a model.

    One of the following: a `ReluNetwork`, `MaxoutNetwork`, `HardTransformer`, `Block`,
    `AttentionHead`, `GraphNetwork` or `ArgmaxNetwork`; any object whose attribute `network` is an
    `ArgmaxNetwork`; the path of a file that `load_model` reads, as `str` or `Path`; a torch module,
    or a list of torch modules, that `from_torch` converts.

    Examples:
        >>> import hardmax as hm
        >>> def count(model: ModelLike) -> int:
        ...     return hm.enumerate_regions(model, "box:-1,1^2").n_cells
        >>> count(hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]]))
        4
    """

    meaning = object


class DomainLike(metaclass=_Alias):
    """A domain, or its description as text: `Box([-1, -1], [1, 1])` or `"box:-1,1^2"`.

    The domains are `Box`, `WholeSpace`, `Segment`, `Line`, `Ray`, `Polytope`, `Simplex` and
    `Slice`, and any object that implements `hardmax.geometry.Domain`. `parse_domain` lists the
    possible texts.

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
