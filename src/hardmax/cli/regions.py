"""`hardmax regions` and `hardmax verify`: find every cell of a model, and check a certificate."""

import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.flags import rename_arguments, report_file_errors
from hardmax.cli.models import Activations, LastActivation, describe_model, read_model
from hardmax.cli.pictures import check_folder, check_picture_file, list_counts, save_picture
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
"""The longest text of a domain that is printed, in characters, and the largest size of its integers
in bits. A domain given in float64 has smaller integers."""


def regions(
    model: Model,
    domain: Annotated[str, typer.Option(help="The domain to search, as listed above.")],
    count: Annotated[
        bool, typer.Option("--count", help="Count the cells without storing them (faster).")
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
            help="Write the cells to this folder as they are found. Run the same command again to "
            "resume an interrupted search."
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Write a certificate for `hardmax verify` to this file. With --store, a path that "
            "does not end in .json names a folder of parts, and existing parts are kept."
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
            help="Print the counts as JSON, readable by `hardmax.Record`, instead of text.",
        ),
    ] = False,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Use integer arithmetic only, without floats (slower)."),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(help="The number of threads in 2 to 7 dimensions.")
    ] = None,
    executor: Executor = None,
    activations: Activations = None,
    last_activation: LastActivation = None,
) -> None:
    """Find every cell of a model on a domain and count cells, regions and affine maps, exactly.

    \b
    Domains:
      {domains}
    In a list, x^n repeats x n times: segment:0^784;1^784. Put the domain in quotes.

    \b
    Exit status:
      0 if every cell was found
      1 if a limit stopped the search
      2 if the input was refused
      130 after Ctrl-C
    """  # noqa: D301 - the backspace keeps typer from joining the lines of the table.
    from hardmax.geometry.domain_text import domain_text, read_domain

    _refuse_files_with_count(count, {"--out": out, "--certificate": certificate, "--plot": plot})
    # Tables and certificates describe networks of dense layers.
    is_written = out is not None or certificate is not None
    network, assumed = read_model(
        "MODEL", model, activations, last_activation, keeps_graphs=not is_written
    )
    where = read_domain(domain, "--domain")
    in_parts = store is not None and certificate is not None and certificate.suffix != ".json"
    _check_targets(out, None if in_parts else certificate, plot, where.dim)

    def print_row(name: str, text: object) -> None:
        if not as_json:
            print(f"{name:<14}{text}", flush=True)

    print_row("model", describe_model(network))
    if assumed:
        print_row("assumed", assumed)
    print_row("domain", domain_text(where))
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
    # Counting regions and maps needs all cells in memory at once.
    found = list_counts(part, only_cells=count or store is not None)
    for name, number in found:
        print_row(name, number)
    print_row("search", f"{seconds:.2f} s, engine {part.engine}")
    written = {"store": store, "out": out, "certificate": certificate, "plot": plot}
    if store is not None:
        print_row("written", store)
    if out is not None:
        from hardmax.regions.arrow_tables import save_partition

        with report_file_errors("--out", out):
            save_partition(part, out)
        print_row("written", out)
    if certificate is not None:
        with report_file_errors("--certificate", certificate):
            _save_certificate(part, certificate, {"workers": workers, "executor": executor})
        print_row("certificate", certificate)
    if plot is not None:
        with rename_arguments(obj="--plot", box="--domain"):
            save_picture(part, "--plot", plot)
        print_row("picture", plot)
    if as_json:
        parameters = {"model": str(model), "domain": domain_text(where), **limits}
        files = {name: str(path) for name, path in written.items() if path is not None}
        print(_make_record(part, parameters, found, files, assumed, seconds).to_json())
    if is_stopped:
        raise KeyboardInterrupt
    if not part.is_complete:
        reached = " or ".join(
            f"--{k.replace('_', '-')}" for k, v in limits.items() if v is not None
        )
        print_row("incomplete", f"{reached} stopped the search; there may be more cells")
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
            help="The domain that the certificate must be about. If it is about another domain, "
            "both are printed and the check fails (see `hardmax regions --help`)."
        ),
    ] = None,
    simple: Annotated[
        bool,
        typer.Option(
            "--simple",
            help="Use the slower verifier that uses only integers (hardmax/verify/verify.py).",
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(help="The number of processes that check a tiling or parts of a certificate."),
    ] = None,
    executor: Executor = None,
    activations: Activations = None,
    last_activation: LastActivation = None,
) -> None:
    """Check a certificate exactly, from the stored weights alone.

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
    with report_file_errors("CERTIFICATE", certificate):
        files = sorted(certificate.glob("*.json")) if certificate.is_dir() else [certificate]
        if not files:
            raise ArgumentError(
                "`path` must be a certificate, or a folder with the parts of one; the folder "
                f"{certificate} has no .json files."
            )
        claim = Certificate.load(files[0])
        parts = files if certificate.is_dir() else claim
    where = None if domain is None else read_domain(domain, "--domain")
    print(f"{'model':<14}{describe_model(network)}")
    if assumed:
        print(f"{'assumed':<14}{assumed}")
    print(f"{'domain':<14}{_describe_domain(claim)}", flush=True)
    if where is not None and not is_domain_of(claim, where):
        print(f"{'--domain':<14}{domain_text(where)}", flush=True)
    start = time.perf_counter()
    method = "integers" if simple else "fast"
    with rename_arguments(workers="--workers"):
        verdict = verify_certificate(
            network, parts, where, method=method, workers=workers, executor=executor
        )
    seconds = time.perf_counter() - start
    if not verdict.ok:
        print(f"{'not ok':<14}{verdict.reason}")
        raise typer.Exit(1)
    print(f"{'ok':<14}all cells are listed: {verdict.n_cells}")
    print(f"{'check':<14}{seconds:.2f} s, proof by {claim.kind}")


def _refuse_files_with_count(count: bool, files: dict[str, Path | None]) -> None:
    given = [flag for flag, path in files.items() if path is not None]
    if count and given:
        raise ArgumentError(
            f"`--count` stores no cells, so {given[0]} has nothing to write; leave out one of them."
        )


def _check_targets(out: Path | None, certificate: Path | None, plot: Path | None, dim: int) -> None:
    """Refuse files that could not be written, before a search that may take long."""
    if out is not None:
        from hardmax._ground.extras import load_extra
        from hardmax._ground.files import check_ending
        from hardmax.regions.arrow_tables import PARTITION_ENDINGS

        with rename_arguments(path="--out"):
            ending = check_ending(out, PARTITION_ENDINGS)
        if ending == ".parquet":
            load_extra("pyarrow.parquet", extra="arrow", purpose="Arrow tables")
        check_folder("--out", out)
    if certificate is not None:
        check_folder("--certificate", certificate)
    if plot is not None:
        check_picture_file("--plot", plot)
        if dim not in (1, 2, 3):
            raise ArgumentError(
                f"`--plot` draws domains of dimension 1 to 3; this domain has dimension {dim}. "
                "Search a segment between two points, or a slice of dimension 2, instead."
            )


def _search(model: Any, domain: Any, options: dict[str, Any]) -> "tuple[Partition, bool]":
    """Return the partition found, and whether Ctrl-C ended the search early."""
    from hardmax.regions.engines import enumerate_regions

    has_limit = options["max_cells"] is not None or options["max_seconds"] is not None
    try:
        part = enumerate_regions(model, domain, **options)
    except KeyboardInterrupt as stop:
        found: Partition | None = getattr(stop, "partial", None)
        if found is None:
            raise
        return found, True
    # Without a limit, only Ctrl-C ends a search early.
    return part, not part.is_complete and not has_limit


def _make_record(
    part: "Partition",
    parameters: dict[str, Any],
    found: list[tuple[str, str]],
    files: dict[str, str],
    assumed: str,
    seconds: float,
) -> "Record":
    """Return the results as a record; counts of an incomplete search are lower bounds."""
    from hardmax._ground.records import Record, fingerprint

    results: dict[str, Any] = {
        f"n_{name.replace(' ', '_')}": int(number.removeprefix("at least "))
        for name, number in found
    }
    results |= {"is_complete": part.is_complete, "engine": part.engine, "files": files}
    if assumed:
        results["assumed"] = assumed
    return Record("regions", parameters, results, None, fingerprint(part.network), seconds)


def _save_certificate(part: "Partition", path: Path, who: dict[str, Any]) -> None:
    from hardmax.regions.stores import StoredPartition

    if isinstance(part, StoredPartition) and path.suffix != ".json":
        with rename_arguments(folder="--certificate"):
            part.save_certificate(path, **who)
    else:
        part.certificate().save(path)


def _describe_domain(claim: Any) -> str:
    """Return the domain of a certificate as text, or a summary if the text is too long."""
    from hardmax.geometry.domain_text import domain_text

    dim, ambient = claim.chart.shape[1] - 1, claim.chart.shape[0]
    text = f"a part of dimension {dim} of R^{ambient}, {len(claim.rows)} inequalities"
    numbers = [*claim.rows.ravel().tolist(), *claim.chart.ravel().tolist()]
    if all(entry.bit_length() <= _MOST_BITS for entry in numbers):
        domain = _read_claimed_domain(claim)
        exact = text if domain is None else domain_text(domain)
        text = exact if len(exact) <= _LONGEST else text
    return text


def _read_claimed_domain(claim: Any) -> Any:
    """Return the domain of a certificate, or None if float64 cannot represent its chart."""
    import numpy as np

    from hardmax.exact.dyadic import nearest_float
    from hardmax.geometry.domain_text import box_of_rows
    from hardmax.geometry.domains import Line, Ray, Segment, Slice, WholeSpace
    from hardmax.geometry.polytopes import Polytope
    from hardmax.geometry.simplices import Simplex, weight_rows

    dim, ambient = claim.chart.shape[1] - 1, claim.chart.shape[0]
    polytope = Polytope.from_rows([tuple(row) for row in claim.rows.tolist()], dim)
    rows = {tuple(row) for row in polytope.rows.tolist()}
    inner = (box_of_rows(polytope.rows) or polytope) if rows else WholeSpace(dim)
    exact = [[Fraction(x, claim.chart_denominator) for x in row] for row in claim.chart.tolist()]
    if exact == np.eye(dim, dim + 1).tolist():
        return inner
    is_simplex = rows == {tuple(row) for row in weight_rows(dim).tolist()}
    if is_simplex:  # The chart has differences of vertices, which may not be float64 numbers.
        exact = [[*(p + way for way in ways), p] for *ways, p in exact]
    floats = np.array([[nearest_float(x) for x in row] for row in exact]).reshape(ambient, -1)
    if floats.tolist() != exact:
        return None
    origin, directions = floats[:, -1], floats[:, :-1].T
    if is_simplex:
        vertices = np.concatenate([[origin], directions])
        return Segment(*vertices) if dim == 1 else Simplex(vertices)
    if dim == 1 and rows <= {(-1, 0)}:
        return (Ray if rows else Line)(origin, directions[0])
    return Slice(origin, directions, inner)
