"""Animations: a head at falling temperature, and a partition that one layer after another cuts."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from hardmax._ground.files import atomic_write, write_text
from hardmax.errors import ArgumentError
from hardmax.geometry.domain_text import read_box
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.plotting.dispatch import draw
from hardmax.plotting.partitions import count_cells_by_layer
from hardmax.plotting.stability import plot_annealing
from hardmax.plotting.style import off_screen
from hardmax.regions.partition import Partition

_KINDS = (".gif", ".html")


def animate_temperature(
    head: AttentionHead,
    temperatures: Sequence[float],
    box: Box | str,
    path: str | Path,
    *,
    seconds: float = 0.2,
    resolution: int = 240,
) -> Path:
    """Write an animation of a head at several temperatures, with the exact walls on top.

    Args:
        head: A head with a two-dimensional input.
        temperatures: Nonnegative temperatures, one per frame.
        box: The part of the plane to show.
        path: A `.gif` file, or a self-contained `.html` page with a slider.
        seconds: The duration of a frame.
        resolution: The number of points evaluated along each side.

    Returns:
        The path.

    Raises:
        ArgumentError: If the path has another ending, the input of the head is not two-dimensional,
            or `temperatures` is empty.

    Examples:
        >>> import tempfile
        >>> import numpy as np
        >>> head = AttentionHead(np.eye(2), [[1.0, 0.0], [-1.0, 1.0]], np.eye(2), np.eye(2))
        >>> target = Path(tempfile.mkdtemp()) / "head.gif"
        >>> box = Box([-1, -1], [1, 1])
        >>> animate_temperature(head, np.geomspace(1, 0.1, 2), box, target, resolution=8).name
        'head.gif'
    """
    if not len(temperatures):
        raise ArgumentError("`temperatures` must have at least one entry; got none.")
    figures = (plot_annealing(head, [tau], box, resolution=resolution)[0] for tau in temperatures)
    return _write_animation(figures, path, seconds)


def animate_depth(
    partition: Partition, path: str | Path, *, box: Box | str | None = None, seconds: float = 1.0
) -> Path:
    """Write an animation of a planar partition cut by the first layer, the first two, and so on.

    Layers that cut nothing are skipped.

    Args:
        partition: The partition of the whole model.
        path: A `.gif` file, or a self-contained `.html` page with a slider.
        box: The part to show, as for `plot`.
        seconds: The duration of a frame.

    Returns:
        The path.

    Raises:
        ArgumentError: If the path has another ending, or the partition is not two-dimensional.

    Examples:
        >>> import tempfile
        >>> from hardmax import ReluNetwork, enumerate_regions
        >>> net = ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0], [1.0]]])
        >>> part = enumerate_regions(net, Box([-1, -1], [1, 1]))
        >>> animate_depth(part, Path(tempfile.mkdtemp()) / "depth.html").name
        'depth.html'
    """
    if partition.domain.dim != 2:
        raise ArgumentError(f"`partition` must have dimension 2; got {partition.domain.dim}.")
    window = None if box is None else read_box(box)
    counts = count_cells_by_layer(partition)
    n_layers = len(partition.network.layers)

    def frame(depth: int, n_cells: int) -> Any:
        ax = draw(partition, box=window, color="cell", layers=depth)
        words = f"{depth} of {n_layers} layers" if n_layers > 1 else "1 layer"
        ax.set_title(f"{words}: {n_cells} cell{'s' * (n_cells != 1)}")
        return ax.figure

    return _write_animation((frame(*pair) for pair in counts.items()), path, seconds)


def _write_animation(figures: Iterable[Any], path: str | Path, seconds: float) -> Path:
    """Draw the figures in order and write them to one file."""
    from PIL import Image

    target = Path(path)
    if target.suffix.lower() not in _KINDS:
        raise ArgumentError(f"`path` must end in {' or '.join(_KINDS)}; got {target}.")
    if not seconds > 0:
        raise ArgumentError(f"`seconds` must be positive; got {seconds!r}.")
    frames = []
    with off_screen():
        for figure in figures:
            stream = BytesIO()
            # All frames need the same size, so their margins are not trimmed.
            figure.savefig(stream, format="png", dpi=110, bbox_inches=figure.bbox_inches)
            frames.append(stream.getvalue())
    if target.suffix.lower() == ".html":
        write_text(target, _build_page(frames, seconds))
        return target
    images = [Image.open(BytesIO(frame)).convert("RGB") for frame in frames]
    with atomic_write(target) as out:
        images[0].save(
            out,
            format="GIF",
            save_all=True,
            append_images=images[1:],
            duration=round(1000 * seconds),
            loop=0,
        )
    return target


def _build_page(frames: Sequence[bytes], seconds: float) -> str:
    """Return an HTML page with all frames, a slider and a button."""
    pictures = "".join(
        f'<img alt="frame {k + 1} of {len(frames)}" '
        f'src="data:image/png;base64,{b64encode(frame).decode("ascii")}"{" hidden" * (k > 0)}>\n'
        for k, frame in enumerate(frames)
    )
    return _PAGE.format(pictures=pictures, last=len(frames) - 1, pause=round(1000 * seconds))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>hardmax</title>
<style>
body {{ margin: 1rem auto; max-width: 34rem; font: 1rem system-ui; text-align: center; }}
img {{ max-width: 100%; }}
form {{ display: flex; gap: 0.8rem; padding: 0 1rem; }}
input {{ flex: 1; }}
</style>
{pictures}<form>
<button type="button" id="play">pause</button>
<input id="frame" type="range" min="0" max="{last}" value="0" aria-label="frame">
</form>
<script>
const frames = [...document.images], slider = document.getElementById("frame");
const button = document.getElementById("play");
let timer = 0;
const show = () => frames.forEach((one, k) => (one.hidden = k !== Number(slider.value)));
const stop = () => (clearInterval(timer), (timer = 0), (button.textContent = "play"));
const play = () => {{
  timer = setInterval(() => {{
    slider.value = (Number(slider.value) + 1) % frames.length;
    show();
  }}, {pause});
  button.textContent = "pause";
}};
button.onclick = () => (timer ? stop() : play());
slider.oninput = () => (stop(), show());
play();
</script>
</html>
"""
