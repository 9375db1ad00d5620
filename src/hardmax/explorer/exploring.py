"""`explore`: show a model, a head or a partition in the explorer."""

import html
import os
import tempfile
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.files import atomic_write
from hardmax.errors import ArgumentError
from hardmax.explorer.heads_at_work import heads_to_data
from hardmax.explorer.joined_page import build_page
from hardmax.explorer.plain_data import domain_to_data, model_to_data
from hardmax.geometry.domains import Box
from hardmax.models.checkpoints.heads import HeadArrays
from hardmax.models.model_arguments import read_model
from hardmax.models.transformers import Block, HardTransformer
from hardmax.plotting.windows import HALF_SIDE, choose_default_window, finite_vertices
from hardmax.regions.arrow_tables import load_partition
from hardmax.regions.charted_domains import charted
from hardmax.regions.partition import Partition
from hardmax.typing import DomainLike


@dataclass(frozen=True, eq=False)
class Exploration:
    """The explorer page with a model on it, which a notebook displays.

    Attributes:
        start: The initial state of the page; empty for the default.
        models: The heads of checkpoints at work that the page contains.

    Examples:
        >>> from hardmax import ReluNetwork, explore
        >>> explore(ReluNetwork([[[1.0, -1.0], [1.0, 1.0]], [[1.0], [1.0]]]))
        Exploration(ReluNetwork(2 -> [2] -> 1))
    """

    start: dict[str, Any]
    models: tuple[dict[str, Any], ...] = ()

    def __repr__(self) -> str:
        shown = self.start.get("regions") or self.start.get("real")
        return f"Exploration({shown['name']})" if shown else "Exploration()"

    def page(self) -> str:
        """Return the page as one HTML file."""
        return build_page(self.start, models=self.models)

    def _repr_html_(self) -> str:
        text = html.escape(self.page(), quote=True)
        style = "width:100%;height:640px;border:1px solid #8884;border-radius:8px"
        # A sandboxed frame has no origin, so the page cannot read the notebook.
        rights = "allow-scripts allow-downloads"
        return f'<iframe sandbox="{rights}" style="{style}" srcdoc="{text}"></iframe>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page as a single HTML file that works offline."""
        with atomic_write(path) as stream:
            stream.write(self.page().encode())

    def widget(self) -> Any:
        """Return a live notebook widget whose `state` is synchronized with the page.

        Raises:
            MissingExtraError: If anywidget is not installed.
        """
        from hardmax.explorer.widget import explorer_widget

        return explorer_widget(self.page(), self.start)

    def open(self) -> Path:
        """Write the page to a new temporary folder and open it in a browser."""
        path = Path(tempfile.mkdtemp(prefix="hardmax-")) / "explorer.html"
        self.save(path)
        webbrowser.open(path.as_uri())
        return path


def explore(
    obj: Any = None, domain: DomainLike | None = None, *, labels: Sequence[str] | None = None
) -> Exploration:
    """Show a model in the explorer, which finds its cells exactly in any browser.

    Args:
        obj: A model with two input coordinates, or with more and a planar `domain`: a network, a
            transformer, a block, a head, the path of a model file, or a torch module. Or a
            two-dimensional `Partition`, or the path of one. Or the layers of a checkpoint at work,
            as `models.head_arrays` and `heads_from_cache` return them. None shows the default page.
        domain: A two-dimensional domain, or its text. The default is the domain of the partition,
            or the box from -4 to 4.
        labels: The labels of the tokens, if `obj` has layers of a checkpoint.

    Returns:
        An object that a notebook displays as the page. `save` writes it to a file, `open` opens it
        in a browser, and `widget` returns a live widget.

    Raises:
        ArgumentError: If the domain is not two-dimensional, or `obj` has an unsupported type.

    Examples:
        >>> from hardmax import ReluNetwork, explore
        >>> explore(ReluNetwork([[[1.0, -1.0], [1.0, 1.0]], [[1.0], [1.0]]]))
        Exploration(ReluNetwork(2 -> [2] -> 1))
    """
    if obj is None:
        return Exploration({})
    if isinstance(obj, str | os.PathLike) and Path(obj).suffix.lower() == ".parquet":
        obj = load_partition(obj)
    obj = read_model(obj, "obj")
    if isinstance(obj, HeadArrays | tuple | list):
        layers = [obj] if isinstance(obj, HeadArrays) else obj
        data = heads_to_data(layers, labels)
        return Exploration({"view": "real", "real": {"name": data["name"]}}, (data,))
    model, where = obj, domain
    if isinstance(obj, Partition):
        model, where = obj.network, obj.domain if domain is None else domain
    if isinstance(model, Block):
        model = HardTransformer([model])
    data = model_to_data(model)
    dim_in = model.dim if not hasattr(model, "dim_in") else model.dim_in
    if where is None and dim_in != 2:
        raise ArgumentError(
            f"`domain` is required: the model has {dim_in} input coordinates. Choose a plane in "
            f"R^{dim_in}, a `Slice`."
        )
    if where is None:
        where = Box(np.full(2, -HALF_SIDE), np.full(2, HALF_SIDE))
    shown = domain_to_data(where, dim_in)
    points = finite_vertices(obj) if isinstance(obj, Partition) and domain is None else None
    regions = {
        "source": {"kind": "file"},
        "model": data,
        "name": repr(obj),
        "domain": shown,
        "depth": 1 << 20,
        "plane": False,
        "size": 4,
        "colour": "cell",
        "window": _square_window(choose_default_window(charted(where, dim_in), points)),
    }
    return Exploration({"view": "regions", "regions": regions})


def _square_window(window: Box) -> dict[str, float]:
    """Return a square window that shows a box with a small margin."""
    (x, y), sides = (window.low + window.high) / 2, window.high - window.low
    return {"x": float(x), "y": float(y), "half": 0.53 * float(sides.max())}
