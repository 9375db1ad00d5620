"""`hardmax regions` and `hardmax verify`: every cell of a model on a domain, and their proof."""

import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.flags import calling, opening
from hardmax.cli.models import Activations, LastActivation, described, read_model
from hardmax.cli.pictures import check_folder, check_picture, counts, save_picture
from hardmax.errors import ArgumentError

if TYPE_CHECKING:
    from hardmax._ground.records import Record
    from hardmax.regions.partition import Partition

_MODEL_HELP = (
    "The model file: a file saved or compiled by hardmax, an ONNX file, a TorchScript file, or a "
    "state dict in safetensors."
)
Model = Annotated[Path, typer.Argument(metavar="MODEL", help=_MODEL_HELP)]
Executor = Annotated[
    str | None,
    typer.Option(
        help="Where the work runs: 'processes', or the address of a Dask scheduler such as tcp://10.0.0.1:8786."
    ),
]

_LONGEST, _MOST_BITS = 200, 1 << 12
"""How long the text of a domain may be that is printed, and how long its integers; those of a
domain in float64 are shorter."""


def regions(
    model: Model,
    domain: Annotated[str, typer.Option(help="The domain to search, as listed above.")],
    count: Annotated[
        bool, typer.Option("--count", help="Count the cells without storing them, which is faster.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write the cells to this file: a table of signatures, volumes, witnesses and "
            "affine maps (.csv), or a partition that `hardmax plot` reads back (.parquet)."
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Write the cells to this folder as they are found. The same command resumes an "
            "interrupted search."
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Write a certificate for `hardmax verify` to this file. With --store, a name that "
            "does not end in .json is a folder of parts, and existing parts are kept."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Write a picture (.png, .svg or .pdf) of a domain of dimension 1 to 3."),
    ] = None,
    max_cells: Annotated[int | None, typer.Option(help="Stop after this many cells.")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds.")] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print a JSON record of the counts, which `hardmax.Record` reads, and no lines.",
        ),
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Use integer arithmetic alone, without floats, which is slower."
        ),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="The number of threads, used in 2 to 7 dimensions.")
    ] = None,
    executor: Executor = None,
    activations: Activations = None,
    last_activation: LastActivation = None,
) -> None:
    """Find every cell of a model on a domain, exactly, and count cells, regions and affine maps.

    \b
    Domains:
      box:-1,1^2                      the box [-1, 1]^2
      box:-1,1;0,5                    one interval for each coordinate
      space:3                         all of space, 3 dimensions
      segment:0,0;1,2                 from one point to another
      line:0,0;1,2                    through a point in a direction
      ray:0,0;1,2                     from a point in a direction
      hull:0,0;1,0;0,1                the convex hull of points, a polygon
      polytope:1,0<=1;-1,-1<=0        inequalities a,b <= c
      slice:0,0,1;1,0,0;0,1,0         the plane through a point along directions
      slice:0,0,1;1,0,0|box:-1,1      a part of it, in its coordinates
    In a list x^n is x, n times: segment:0^784;1^784. Quote the text.

    \b
    Exit status:
      0 if every cell was found
      1 if a limit stopped the search
      2 if the input was refused
      130 after Ctrl-C
    """  # noqa: D301 - the backspace keeps the lines of the table apart.
    from hardmax.geometry.domain_text import domain_text, read_domain

    _refuse_together(count, {"--out": out, "--certificate": certificate, "--plot": plot})
    # What is written down is about networks of dense layers.
    is_written = out is not None or certificate is not None
    network, assumed = read_model(
        "MODEL", model, activations, last_activation, keeps_graphs=not is_written
    )
    where = read_domain(domain, "--domain")
    in_parts = store is not None and certificate is not None and certificate.suffix != ".json"
    _check_targets(out, None if in_parts else certificate, plot, where.dim)

    def tell(name: str, text: object) -> None:
        if not as_json:
            print(f"{name:<14}{text}", flush=True)

    tell("model", described(network))
    if assumed:
        tell("assumed", assumed)
    tell("domain", domain_text(where))
    start = time.perf_counter()
    limits = {"max_cells": max_cells, "max_seconds": max_seconds}
    part, is_stopped = _search(
        network,
        where,
        {
            **limits,
            "count_only": count,
            "exact": exact,
            "workers": workers,
            "store": store,
            "executor": executor,
        },
    )
    seconds = time.perf_counter() - start
    # Regions and maps need all cells in memory at once.
    found = counts(part, only_cells=count or store is not None)
    for name, number in found:
        tell(name, number)
    tell("search", f"{seconds:.2f} s, engine {part.engine}")
    written = {"store": store, "out": out, "certificate": certificate, "plot": plot}
    if store is not None:
        tell("written", store)
    if out is not None:
        from hardmax.regions.arrow_tables import save_partition

        with opening("--out", out):
            save_partition(part, out)
        tell("written", out)
    if certificate is not None:
        with opening("--certificate", certificate):
            _certify(part, certificate, {"workers": workers, "executor": executor})
        tell("certificate", certificate)
    if plot is not None:
        with calling(obj="--plot", box="--domain"):
            save_picture(part, "--plot", plot)
        tell("picture", plot)
    if as_json:
        parameters = {"model": str(model), "domain": domain_text(where), **limits}
        files = {name: str(path) for name, path in written.items() if path is not None}
        print(_record(part, parameters, found, files, assumed, seconds).to_json())
    if is_stopped:
        raise KeyboardInterrupt
    if not part.is_complete:
        reached = " or ".join(
            f"--{k.replace('_', '-')}" for k, v in limits.items() if v is not None
        )
        tell("incomplete", f"{reached} stopped the search: there may be more cells")
        raise typer.Exit(1)


def verify(
    model: Model,
    certificate: Annotated[
        Path,
        typer.Argument(
            metavar="CERTIFICATE",
            help="The file or folder written by `hardmax regions --certificate`.",
        ),
    ],
    domain: Annotated[
        str | None,
        typer.Option(
            help="Refuse a certificate about any other domain than this one, and show both (see "
            "`hardmax regions --help`)."
        ),
    ] = None,
    simple: Annotated[
        bool,
        typer.Option(
            "--simple",
            help="Use the verifier in integers alone (hardmax/verify/verify.py), which is slower.",
        ),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="The number of processes that check a tiling or the parts.")
    ] = None,
    executor: Executor = None,
    activations: Activations = None,
    last_activation: LastActivation = None,
) -> None:
    """Check a certificate from the stored weights alone, exactly.

    \b
    Exit status:
      0 if the certificate proves its claim
      1 if it does not
      2 if it could not be checked, for example because a file is damaged
      130 after Ctrl-C
    """  # noqa: D301
    from hardmax.geometry.domain_text import domain_text, read_domain
    from hardmax.regions.certificate_format import Certificate
    from hardmax.verify.checking import is_domain_of, verify_certificate

    network, assumed = read_model("MODEL", model, activations, last_activation)
    with opening("CERTIFICATE", certificate):
        files = sorted(certificate.glob("*.json")) if certificate.is_dir() else [certificate]
        if not files:
            raise ArgumentError(f"`path` must have parts of a certificate; {certificate} has none.")
        claim = Certificate.load(files[0])
        parts = files if certificate.is_dir() else claim
    where = None if domain is None else read_domain(domain, "--domain")
    print(f"{'model':<14}{described(network)}")
    if assumed:
        print(f"{'assumed':<14}{assumed}")
    print(f"{'domain':<14}{_claimed_domain(claim)}", flush=True)
    if where is not None and not is_domain_of(claim, where):
        print(f"{'--domain':<14}{domain_text(where)}", flush=True)
    start = time.perf_counter()
    method = "integers" if simple else "fast"
    with calling(workers="--workers"):
        verdict = verify_certificate(
            network, parts, where, method=method, workers=workers, executor=executor
        )
    seconds = time.perf_counter() - start
    if not verdict.ok:
        print(f"{'not ok':<14}{verdict.reason}")
        raise typer.Exit(1)
    print(f"{'ok':<14}these are all cells: {verdict.n_cells}")
    print(f"{'check':<14}{seconds:.2f} s, by {claim.kind}")


def _refuse_together(count: bool, files: dict[str, Path | None]) -> None:
    given = [flag for flag, path in files.items() if path is not None]
    if count and given:
        raise ArgumentError(
            f"`--count` stores no cells, so nothing can be written; leave out it or {given[0]}."
        )


def _check_targets(out: Path | None, certificate: Path | None, plot: Path | None, dim: int) -> None:
    """Refuse what could not be written at the end, before a search that may take long."""
    if out is not None:
        from hardmax._ground.extras import load_extra
        from hardmax._ground.files import check_ending
        from hardmax.regions.arrow_tables import PARTITION_ENDINGS

        with calling(path="--out"):
            ending = check_ending(out, PARTITION_ENDINGS)
        if ending == ".parquet":
            load_extra("pyarrow.parquet", extra="arrow", purpose="Arrow tables")
        check_folder("--out", out)
    if certificate is not None:
        check_folder("--certificate", certificate)
    if plot is not None:
        check_picture("--plot", plot)
        if dim not in (1, 2, 3):
            raise ArgumentError(
                f"`--plot` draws domains of dimension 1 to 3; this one has {dim}. Search a segment "
                "between two points or a slice of dimension 2 instead."
            )


def _search(model: Any, domain: Any, options: dict[str, Any]) -> "tuple[Partition, bool]":
    """Search; Ctrl-C ends it with the cells so far, and whether that happened."""
    from hardmax.regions.engines import enumerate_regions

    has_limit = options["max_cells"] is not None or options["max_seconds"] is not None
    try:
        part = enumerate_regions(model, domain, **options)
    except KeyboardInterrupt as stop:
        found: Partition | None = getattr(stop, "partial", None)
        if found is None:
            raise
        return found, True
    # Without a limit only Ctrl-C ends a search early.
    return part, not part.is_complete and not has_limit


def _record(
    part: "Partition",
    parameters: dict[str, Any],
    found: list[tuple[str, str]],
    files: dict[str, str],
    assumed: str,
    seconds: float,
) -> "Record":
    """Return what the command found as a record. Counts of an incomplete search are "at least"."""
    from hardmax._ground.records import Record, fingerprint

    results: dict[str, Any] = {
        f"n_{name.replace(' ', '_')}": int(number.removeprefix("at least "))
        for name, number in found
    }
    results |= {"is_complete": part.is_complete, "engine": part.engine, "files": files}
    if assumed:
        results["assumed"] = assumed
    return Record("regions", parameters, results, None, fingerprint(part.network), seconds)


def _certify(part: "Partition", path: Path, who: dict[str, Any]) -> None:
    from hardmax.regions.stores import StoredPartition

    if isinstance(part, StoredPartition) and path.suffix != ".json":
        with calling(folder="--certificate"):
            part.save_certificate(path, **who)
    else:
        part.certificate().save(path)


def _claimed_domain(claim: Any) -> str:
    """Write the domain of a certificate as text, if it is not too long."""
    from hardmax.geometry.domain_text import domain_text

    dim, ambient = claim.chart.shape[1] - 1, claim.chart.shape[0]
    text = f"a part of dimension {dim} of R^{ambient}, {len(claim.rows)} inequalities"
    numbers = [*claim.rows.ravel().tolist(), *claim.chart.ravel().tolist()]
    if all(entry.bit_length() <= _MOST_BITS for entry in numbers):
        domain = _domain_of(claim)
        exact = text if domain is None else domain_text(domain)
        text = exact if len(exact) <= _LONGEST else text
    return text


def _domain_of(claim: Any) -> Any:
    """Return the domain of a certificate; None if its chart has numbers beyond float64."""
    import numpy as np

    from hardmax.exact.dyadic import nearest_float
    from hardmax.geometry.domain_text import box_of_rows
    from hardmax.geometry.domains import Line, Ray, Segment, Slice, WholeSpace
    from hardmax.geometry.polytopes import Polytope

    dim, ambient = claim.chart.shape[1] - 1, claim.chart.shape[0]
    polytope = Polytope.from_rows([tuple(row) for row in claim.rows.tolist()], dim)
    rows = {tuple(row) for row in polytope.rows.tolist()}
    inner = (box_of_rows(polytope.rows) or polytope) if rows else WholeSpace(dim)
    exact = [[Fraction(x, claim.chart_denominator) for x in row] for row in claim.chart.tolist()]
    if exact == np.eye(dim, dim + 1).tolist():
        return inner
    is_segment = rows == {(1, 1), (-1, 0)}
    if is_segment:  # Its chart has the difference of its ends, which floats may not hold.
        exact = [[p + way, p] for way, p in exact]
    floats = np.array([[nearest_float(x) for x in row] for row in exact]).reshape(ambient, -1)
    if floats.tolist() != exact:
        return None
    origin, directions = floats[:, -1], floats[:, :-1].T
    if is_segment:
        return Segment(origin, directions[0])
    if dim == 1 and rows <= {(-1, 0)}:
        return (Ray if rows else Line)(origin, directions[0])
    return Slice(origin, directions, inner)
