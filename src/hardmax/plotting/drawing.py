"""`plot`: read the arguments, then call the drawing function for the type of the object.

Each module imported here registers its types with `dispatch.draw`.
"""

import os
from pathlib import Path
from typing import Any

from hardmax.errors import ArgumentError, HardmaxError
from hardmax.geometry.domain_text import read_box
from hardmax.models.argmax import ArgmaxNetwork
from hardmax.models.heads import AttentionHead
from hardmax.models.model_arguments import read_model
from hardmax.models.transformers import Block
from hardmax.plotting import (  # noqa: F401
    diagrams,
    graphs,
    level_sets,
    partitions,
    polynomials,
    solids,
    stability,
)
from hardmax.plotting.dispatch import draw, is_drawable, list_options
from hardmax.regions.arrow_tables import load_partition
from hardmax.regions.engines import enumerate_regions


def plot(obj: Any, domain: Any = None, ax: Any = None, **options: Any) -> Any:
    """Draw a model on a domain, a partition, a diagram, a polytope or a polynomial.

    Inside a block `with hm.plotting.house_style("dark"):`, the background is dark.

    Args:
        obj: The object to draw. For a model (also the path of its file, or a torch module), the
            cells on `domain` are drawn. The path of a file written by `save_partition` draws that
            partition.
        domain: For a model, the domain to search, or its text, such as `"box:-1,1^2"`. Without a
            domain, the only model that can be drawn is an `AttentionHead`, as its diagram. For
            other objects, this argument may be the axes.
        ax: Axes to draw into, 3-D axes for objects in space. By default, new axes are created.
        **options: Options for the type of the object; see the list below. A `box` may be text, and
            `colour` is accepted as a spelling of `color`.

    Returns:
        The axes.

    Raises:
        DtypeError: If objects of this type cannot be drawn.
        ArgumentError: If the dimension of the object cannot be drawn, or a model has no domain.

    Examples:
        >>> import hardmax as hm
        >>> diagram = hm.PowerDiagram.from_keys([[1, 0], [0, 1], [-1, -1]])
        >>> ax = hm.plot(diagram, box=hm.Box([-2, -1], [2, 1]))
        >>> [float(x) for x in ax.get_xlim()]
        [-2.0, 2.0]
        >>> net = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> ax = hm.plot(net, "box:-1,1^2", color="map")
        >>> [float(y) for y in ax.get_ylim()]
        [-1.0, 1.0]
    """
    if ax is None and hasattr(domain, "get_figure"):
        domain, ax = None, domain
    if options.get("box") is not None:
        options["box"] = read_box(options["box"])
    is_spelled_colour = "colour" in options
    if is_spelled_colour:
        if "color" in options:
            raise ArgumentError("`color` and `colour` are the same option; give only one of them.")
        options["color"] = options.pop("colour")
    shown = _resolve_object(obj, domain)
    try:
        return draw(shown, ax, **options)
    except HardmaxError as error:
        if not is_spelled_colour:
            raise
        raise type(error)(str(error).replace("`color`", "`colour`")) from None


def _resolve_object(obj: Any, domain: Any) -> Any:
    """Return the object to draw: the cells of a model on a domain, or the object itself."""
    if isinstance(obj, str | os.PathLike) and Path(obj).suffix.lower() == ".parquet":
        return load_partition(obj, domain=domain)
    given = read_model(obj, "obj")
    is_model = isinstance(given, ArgmaxNetwork | AttentionHead | Block)
    is_model = is_model or hasattr(type(given), "network")
    if domain is not None and is_model:
        return enumerate_regions(given, domain)
    if domain is not None and is_drawable(given):
        raise ArgumentError(
            f"`domain` applies only to models; got a {type(given).__name__}. Choose the part to "
            "show with `box`."
        )
    if is_model and not is_drawable(given):
        raise ArgumentError(
            f"`domain` is required to draw a {type(given).__name__}: hm.plot(model, "
            "'box:-1,1^2') draws its cells on that box."
        )
    return given


list_options(plot)

__all__ = ["plot"]
