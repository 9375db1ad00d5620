"""The cells of a partition as objects: an index and a reference to the partition, nothing more."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import index as as_integer
from typing import TYPE_CHECKING, overload

from hardmax._ground.display import html_card, pluralize
from hardmax.geometry.polytopes import Polytope
from hardmax.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from hardmax.regions.partition import Partition


@dataclass(frozen=True, slots=True, repr=False)
class Cell:
    """A cell of a partition, as `part[i]` returns it.

    Every property is an entry of a property of the partition. The first access to the volume, the
    witness, the affine map or the neighbours of one cell computes them for all cells, so a loop
    over all cells costs no more than the properties of the partition. `polytope` is computed for
    this cell alone, on every access.

    Two cells are equal if they have the same index in the same partition object.

    Attributes:
        partition: The partition.
        index: The index of the cell, from 0 to `n_found - 1`.

    Examples:
        >>> from hardmax import Box, ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> cell = part[-1]
        >>> cell, cell.signature.tolist(), cell.volume, cell.affine_map.ravel().tolist()
        (Cell(3 of 4 cells, in 2 dimensions), [1, 1], 1.0, [2.0, 0.0, 0.0])
        >>> [other.index for other in cell.neighbours], cell.neighbours[0] == part[1]
        ([1, 2], True)
        >>> enumerate_regions(ReluNetwork([[[1.0]]]), Box([-1], [1]))[0].neighbours
        ()
    """

    partition: "Partition"
    index: int

    def __repr__(self) -> str:
        n_cells = pluralize(self.partition.n_found, "cell")
        dim = pluralize(self.partition.domain.dim, "dimension")
        return f"Cell({self.index} of {n_cells}, in {dim})"

    def _repr_html_(self) -> str:
        return html_card(self)

    @property
    def signature(self) -> IntArray:
        """The index of the winner in every group, shape `(n_groups,)`."""
        row: IntArray = self.partition.signatures[self.index]
        return row

    @property
    def polytope(self) -> Polytope:
        """The closure of the cell as an exact polytope in the domain's coordinates."""
        return self.partition.polytope(self.index)

    @property
    def affine_map(self) -> FloatArray:
        """The affine map on the cell, rounded: shape `(dim + 1, dim_out)`.

        The output at a point `t` of the cell is `(t, 1) @ affine_map`. For exact coefficients, call
        `partition.exact_map(index)`.
        """
        entries: FloatArray = self.partition.affine_maps[self.index]
        return entries

    @property
    def volume(self) -> float:
        """The volume in the domain's coordinates; `inf` if the cell is unbounded.

        The error is at most `partition.volume_radii[index]`. For the exact volume, call
        `polytope.volume`.
        """
        return float(self.partition.volumes[self.index])

    @property
    def witness(self) -> FloatArray:
        """A point of the cell as floats, shape `(dim,)` (see `Partition.witnesses`)."""
        point: FloatArray = self.partition.witnesses[self.index]
        return point

    @property
    def neighbours(self) -> tuple["Cell", ...]:
        """The cells that share a part of a wall with this cell, by increasing index."""
        found = self.partition.neighbours.of(self.index).tolist()
        return tuple(Cell(self.partition, i) for i in found)


@overload
def select_cells(partition: "Partition", index: int) -> Cell: ...
@overload
def select_cells(partition: "Partition", index: slice) -> tuple[Cell, ...]: ...
def select_cells(partition: "Partition", index: int | slice) -> Cell | tuple[Cell, ...]:
    """Return a cell, or the cells of a slice, as sequences do.

    Args:
        partition: The partition.
        index: An integer from `-n_found` to `n_found - 1`, or a slice.

    Raises:
        IndexError: If there is no cell with this index.
        TypeError: If `index` is neither an integer nor a slice.
    """
    n = partition.n_found
    if isinstance(index, slice):
        return tuple(Cell(partition, i) for i in range(n)[index])
    try:
        i = as_integer(index)
    except TypeError:
        raise TypeError(
            "The cells of a partition are selected by an integer or a slice, as in `part[0]` or "
            f"`part[:10]`; got {type(index).__name__}. For several indices, write "
            "`[part[i] for i in indices]`."
        ) from None
    if not -n <= i < n:
        raise IndexError(
            f"The index of a cell must be at least {-n} and below {n}, the number of cells found; "
            f"got {i}."
        )
    return Cell(partition, i % n)


def iter_cells(partition: "Partition") -> Iterator[Cell]:
    """Yield the cells that were found, in order, without computing anything."""
    for i in range(partition.n_found):
        yield Cell(partition, i)


def name_cells(partition: "Partition", found: Sequence[int]) -> list[Cell | None]:
    """Return the cells with the indices that `Partition.locate` returned, None for -1."""
    return [None if i < 0 else Cell(partition, i) for i in found]
