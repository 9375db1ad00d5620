"""`hardmax plot`, and the pictures that other commands write."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.flags import rename_arguments, report_file_errors
from hardmax.errors import ArgumentError

if TYPE_CHECKING:
    from hardmax.regions.partition import Partition


def plot(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A partition (.parquet) saved by `hardmax regions --out`, or a model file.",
        ),
    ],
    domain: Annotated[
        str | None,
        typer.Option(
            help="The domain of a model, such as 'box:-1,1^2' (see `hardmax regions --help`)."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="The picture to write (.png, .svg or .pdf). The default is FILE.png.",
        ),
    ] = None,
    color: Annotated[
        str,
        typer.Option(
            "--color",
            "--colour",
            help="Use one color for each region, affine map (map) or cell.",
        ),
    ] = "region",
    window: Annotated[
        str | None,
        typer.Option(help="The part of an unbounded domain to show, such as 'box:-3,3^2'."),
    ] = None,
    walls: Annotated[bool, typer.Option(help="Draw the walls between the cells.")] = True,
    legend: Annotated[bool, typer.Option(help="Draw a legend of the walls.")] = True,
    dark: Annotated[bool, typer.Option("--dark", help="Use a dark background.")] = False,
) -> None:
    """Draw the cells of a model on a domain of dimension 1 to 3, or a saved partition.

    On a domain of dimension 1, such as a segment, the cells are drawn below a plot of the outputs.
    """
    from hardmax._ground.arguments import choice
    from hardmax.geometry.domain_text import read_box

    choice("color", color, ("region", "map", "cell"))
    target = Path(f"{file.stem}.png") if output is None else output
    check_picture_file("--output", target)
    box = None if window is None else read_box(window, "--window")
    part = _load_or_search(file, domain)
    with rename_arguments(box="--window", obj="FILE"):
        options = {"color": color, "walls": walls, "legend": legend, "box": box}
        save_picture(part, "--output", target, theme="dark" if dark else "light", **options)
    print(f"{'picture':<14}{target}")


def check_picture_file(flag: str, path: Path) -> None:
    """Refuse a picture file that could not be written, before anything is computed.

    Raises:
        ArgumentError: If the file ending is not a picture format, or the folder does not exist.
    """
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in kinds:
        raise ArgumentError(
            f"`{flag}` must end in one of {', '.join(f'.{kind}' for kind in sorted(kinds))}; got "
            f"{path}."
        )
    check_folder(flag, path)


def check_folder(flag: str, path: Path) -> None:
    """Refuse a file whose folder does not exist.

    Raises:
        ArgumentError: If the folder does not exist, or the path is itself a folder.
    """
    if not path.parent.is_dir() or path.is_dir():
        raise ArgumentError(f"`{flag}` must be a file in an existing folder; got {path}.")


def save_picture(
    part: "Partition", flag: str, path: Path, *, theme: str = "light", **options: Any
) -> None:
    """Draw a partition with its three counts as the title, and write the file atomically."""
    from hardmax._ground.files import atomic_write
    from hardmax.plotting.drawing import plot as draw
    from hardmax.plotting.style import off_screen

    kind = path.suffix.lstrip(".").lower()
    metadata = {"metadata": {"Date": None}} if kind == "svg" else {}
    with off_screen(theme):
        axes = draw(part, **options)
        numbers = ", ".join(
            f"{count} {name.removesuffix('s') if count == '1' else name}"
            for name, count in list_counts(part)
        )
        # Keep the title that `draw` sets: it states what the picture leaves out.
        axes.set_title("\n".join(filter(None, (numbers, axes.get_title()))))
        with report_file_errors(flag, path), atomic_write(path) as stream:
            axes.figure.savefig(stream, format=kind, **metadata)


def list_counts(part: "Partition", *, only_cells: bool = False) -> list[tuple[str, str]]:
    """Return names and texts of the three counts; an incomplete search has "at least" n cells."""
    if part.is_complete and only_cells:
        return [("cells", str(part.n_cells))]
    if part.is_complete:
        found = ("cells", part.n_cells), ("regions", part.n_regions)
        return [(name, str(n)) for name, n in (*found, ("affine maps", part.n_affine_maps))]
    # A cell not found yet may join two regions, so their number so far is not a lower bound.
    n_cells = str(part.n_cells)
    return [("cells", n_cells if n_cells.startswith("at least") else f"at least {n_cells}")]


def _load_or_search(file: Path, domain: str | None) -> "Partition":
    """Read a saved partition, or search a model on a domain."""
    from hardmax.cli.models import read_model
    from hardmax.geometry.domain_text import read_domain
    from hardmax.regions.arrow_tables import load_partition
    from hardmax.regions.engines import enumerate_regions

    where = None if domain is None else read_domain(domain, "--domain")
    with report_file_errors("FILE", file):
        with file.open("rb") as stream:
            is_parquet = stream.read(4) == b"PAR1"
        if is_parquet:
            return load_partition(file, domain=where)
    model, _ = read_model("FILE", file)
    if where is None:
        raise ArgumentError(f"`--domain` is required: {file} is a model, not a saved partition.")
    found: Partition = enumerate_regions(model, where)
    return found
