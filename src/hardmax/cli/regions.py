"""`hardmax regions` and `hardmax verify`: every cell of a model on a domain, and their proof."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardmax.cli.flags import calling, opening
from hardmax.cli.models import Activations, LastActivation, described, read_model
from hardmax.cli.pictures import check_folder, check_picture, counts, save_picture
from hardmax.errors import ArgumentError

if TYPE_CHECKING:
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
            help="Write the cells (cells.parquet) and the counts (counts.json) to this folder."
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
    from hardmax.geometry.domain_text import domain_text, parse_domain

    _refuse_together(count, {"--out": out, "--certificate": certificate, "--plot": plot})
    # What is written down is about networks of dense layers.
    is_written = out is not None or certificate is not None
    network, assumed = read_model(
        "MODEL", model, activations, last_activation, keeps_graphs=not is_written
    )
    with calling(text="--domain"):
        where = parse_domain(domain)
    in_parts = store is not None and certificate is not None and certificate.suffix != ".json"
    _check_targets(out, None if in_parts else certificate, plot, where.dim)
    print(f"{'model':<14}{described(network)}")
    if assumed:
        print(f"{'assumed':<14}{assumed}")
    print(f"{'domain':<14}{domain_text(where)}", flush=True)
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
    for name, number in counts(part, only_cells=count or store is not None):
        print(f"{name:<14}{number}")
    print(f"{'search':<14}{seconds:.2f} s, engine {part.engine}", flush=True)
    if store is not None:
        print(f"{'written':<14}{store}", flush=True)
    if out is not None:
        _save(part, out, {"model": str(model), "domain": domain_text(where)}, seconds)
    if certificate is not None:
        with opening("--certificate", certificate):
            _certify(part, certificate, {"workers": workers, "executor": executor})
        print(f"{'certificate':<14}{certificate}", flush=True)
    if plot is not None:
        with calling(obj="--plot", box="--domain"):
            save_picture(part, "--plot", plot)
        print(f"{'picture':<14}{plot}")
    if is_stopped:
        raise KeyboardInterrupt
    if not part.is_complete:
        reached = " or ".join(
            f"--{k.replace('_', '-')}" for k, v in limits.items() if v is not None
        )
        print(f"{'incomplete':<14}{reached} stopped the search: there may be more cells")
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
            help="Refuse a certificate about any other domain (see `hardmax regions --help`)."
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
    from hardmax.geometry.domain_text import parse_domain
    from hardmax.regions.certificate_format import Certificate
    from hardmax.verify.checking import verify_certificate

    network, assumed = read_model("MODEL", model, activations, last_activation)
    with opening("CERTIFICATE", certificate):
        files = sorted(certificate.glob("*.json")) if certificate.is_dir() else [certificate]
        if not files:
            raise ArgumentError(f"`path` must have parts of a certificate; {certificate} has none.")
        claim = Certificate.load(files[0])
        parts = files if certificate.is_dir() else claim
    where = None
    if domain is not None:
        with calling(text="--domain"):
            where = parse_domain(domain)
    print(f"{'model':<14}{described(network)}")
    if assumed:
        print(f"{'assumed':<14}{assumed}")
    print(f"{'domain':<14}{_claimed_domain(claim)}", flush=True)
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
        from hardmax._ground.files import make_folder

        load_extra("pyarrow.parquet", extra="arrow", purpose="Arrow tables")
        make_folder(out)
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


def _save(part: "Partition", out: Path, parameters: dict[str, Any], seconds: float) -> None:
    from hardmax._ground.records import Record, fingerprint
    from hardmax.regions.arrow_tables import save_partition

    results: dict[str, Any] = {"is_complete": part.is_complete, "engine": part.engine}
    for name, number in counts(part):
        results[f"n_{name.replace(' ', '_')}"] = int(number) if number.isdigit() else number
    made = Record("regions", parameters, results, None, fingerprint(part.network), seconds)
    with opening("--out", out):
        save_partition(part, out / "cells.parquet")
        made.save(out / "counts.json")
    for name in ("cells.parquet", "counts.json"):
        print(f"{'written':<14}{out / name}", flush=True)


def _certify(part: "Partition", path: Path, who: dict[str, Any]) -> None:
    from hardmax.regions.stores import StoredPartition

    if isinstance(part, StoredPartition) and path.suffix != ".json":
        with calling(folder="--certificate"):
            part.save_certificate(path, **who)
    else:
        part.certificate().save(path)


def _claimed_domain(claim: Any) -> str:
    """Write the domain of a certificate as text, if it is not too long."""
    from hardmax.geometry.domain_text import box_of_rows, domain_text
    from hardmax.geometry.polytopes import Polytope

    dim, ambient = claim.chart.shape[1] - 1, claim.chart.shape[0]
    text = f"a part of dimension {dim} of R^{ambient}, {len(claim.rows)} inequalities"
    is_identity = dim == ambient and all(
        entry == (claim.chart_denominator if i == k else 0)
        for i, row in enumerate(claim.chart.tolist())
        for k, entry in enumerate(row)
    )
    rows = claim.rows.tolist()
    if is_identity and all(entry.bit_length() <= _MOST_BITS for row in rows for entry in row):
        polytope = Polytope.from_rows([tuple(row) for row in rows], dim)
        exact = domain_text(box_of_rows(polytope.rows) or polytope)
        text = exact if len(exact) <= _LONGEST else text
    return text
