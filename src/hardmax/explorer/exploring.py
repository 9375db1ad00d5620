"""`explore`: a model, a head or a partition on the page, in a notebook, a browser or a file."""

import html
import os
import tempfile
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._ground.files import replacing
from hardmax.errors import ArgumentError
from hardmax.explorer.heads_at_work import heads_data
from hardmax.explorer.joined_page import page
from hardmax.explorer.plain_data import domain_data, model_data
from hardmax.geometry.domains import Box
from hardmax.models.checkpoints.heads import HeadArrays
from hardmax.models.model_arguments import read_model
from hardmax.models.transformers import Block, HardTransformer
from hardmax.plotting.windows import HALF_SIDE, default_window, finite_vertices
from hardmax.regions.arrow_tables import load_partition
from hardmax.regions.charted_domains import charted
from hardmax.regions.partition import Partition
from hardmax.typing import DomainLike


@dataclass(frozen=True, eq=False)
class Exploration:
    """The page with something on it; a notebook shows it.

    Attributes:
        start: The state that the page shows first; empty for its own.
        models: Heads of checkpoints at work that the page has.

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
        return page(self.start, models=self.models)

    def _repr_html_(self) -> str:
        text = html.escape(self.page(), quote=True)
        style = "width:100%;height:640px;border:1px solid #8884;border-radius:8px"
        # Without an origin of its own the page reads nothing of the notebook.
        rights = "allow-scripts allow-downloads"
        return f'<iframe sandbox="{rights}" style="{style}" srcdoc="{text}"></iframe>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page as one HTML file, which needs no other and no network."""
        with replacing(path) as stream:
            stream.write(self.page().encode())

    def widget(self) -> Any:
        """Return a live widget for a notebook; its `state` is what the page shows, both ways.

        Raises:
            MissingExtraError: If anywidget is not installed.
        """
        from hardmax.explorer.widget import explorer_widget

        return explorer_widget(self.page(), self.start)

    def open(self) -> Path:
        """Write the page to a new folder for temporary files and open it in a browser."""
        path = Path(tempfile.mkdtemp(prefix="hardmax-")) / "explorer.html"
        self.save(path)
        webbrowser.open(path.as_uri())
        return path


def explore(
    obj: Any = None, domain: DomainLike | None = None, *, labels: Sequence[str] | None = None
) -> Exploration:
    """Put a model on the page of the explorer, which finds its cells exactly in any browser.

    Args:
        obj: A model with two inputs, or with more and a planar `domain`: a network, a transformer,
            a block, a head, the path of a model file, or a torch module; a `Partition` of two
            dimensions, or the path of one; the layers of a checkpoint at work, as
            `models.head_arrays` or `heads_from_cache` returns them; or None for the page as it is.
        domain: Where to look, of two dimensions, or the text of it; by default the box from -4 to
            4, or that of the partition.
        labels: What the tokens of layers are called.

    Returns:
        What a notebook shows as the page; `save` writes it to a file, `open` opens it, `widget`
        makes it live.

    Raises:
        ArgumentError: If there is no plane to look at, or `obj` is no model.

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
        data = heads_data(layers, labels)
        return Exploration({"view": "real", "real": {"name": data["name"]}}, (data,))
    model, where = obj, domain
    if isinstance(obj, Partition):
        model, where = obj.network, obj.domain if domain is None else domain
    if isinstance(model, Block):
        model = HardTransformer([model])
    data = model_data(model)
    dim_in = model.dim if not hasattr(model, "dim_in") else model.dim_in
    if where is None and dim_in != 2:
        raise ArgumentError(f"`domain` must be a plane in R^{dim_in}, a `Slice`; got none.")
    if where is None:
        where = Box(np.full(2, -HALF_SIDE), np.full(2, HALF_SIDE))
    shown = domain_data(where, dim_in)
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
        "window": _window(default_window(charted(where, dim_in), points)),
    }
    return Exploration({"view": "regions", "regions": regions})


def _window(window: Box) -> dict[str, float]:
    """Return a square window with a little more than a box in it."""
    (x, y), sides = (window.low + window.high) / 2, window.high - window.low
    return {"x": float(x), "y": float(y), "half": 0.53 * float(sides.max())}
