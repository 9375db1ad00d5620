"""Run the checks of the ledger, and write the results as a record, a page and pictures."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from hardmax._ground.display import format_card
from hardmax._ground.files import atomic_write, make_folder, write_text
from hardmax._ground.progress import track
from hardmax._ground.records import Record, code_fingerprint, file_digest, library_versions
from hardmax.errors import RecordFormatError
from hardmax.papers.claims import Claim, ClaimVerdict, Finding, Trial
from hardmax.papers.ledger import REPEATS, all_claims
from hardmax.papers.pages import Ruling, bibliography_html, ledger_html, page, repetition_remark


@dataclass(frozen=True, eq=False)
class Result:
    """One claim and the result of running its check.

    Attributes:
        claim: The claim.
        finding: The finding; its verdict is derived from its trials.
        seconds: The duration of the check in seconds.

    Examples:
        >>> from hardmax.papers import find_claims
        >>> [result] = run_audit(find_claims("III-E.1"))
        >>> result.claim.id, result.finding.verdict.value
        ('III-E.1', 'false')
    """

    claim: Claim[Any]
    finding: Finding
    seconds: float

    def __repr__(self) -> str:
        return f"Result({self.claim.id}: {self.finding.verdict.value}, {self.seconds:.2g} s)"

    def _repr_html_(self) -> str:
        row = self.row
        names = ("where", "statement", "verdict", "explanation", "corrected")
        return format_card(f"Claim {self.claim.id}", {name: row[name] or None for name in names})

    @property
    def row(self) -> dict[str, Any]:
        """The claim and the finding as plain values, in the column order of a table."""
        return {
            "id": self.claim.id,
            "source": self.claim.source,
            "where": self.claim.where,
            "kind": self.claim.kind,
            "statement": self.claim.statement,
            "verdict": str(self.finding.verdict),
            "explanation": self.finding.explanation,
            "corrected": self.finding.corrected,
            "repeats": REPEATS.get(self.claim.id, ""),
            "trials": [_trial_fields(trial) for trial in self.finding.trials],
            "seconds": self.seconds,
        }


def run_audit(claims: Sequence[Claim[Any]] | None = None) -> list[Result]:
    """Run the checks of claims, with a progress bar on a terminal.

    Args:
        claims: The claims to check; by default, the whole ledger.

    Returns:
        One result per claim, in the same order.

    Examples:
        >>> from hardmax.papers import find_claims
        >>> [result.finding.verdict.value for result in run_audit(find_claims("III-E.1"))]
        ['false']
    """
    results = []
    for claim in track(all_claims() if claims is None else claims, "checking claims"):
        start = time.perf_counter()
        finding = claim.run()
        results.append(Result(claim, finding, time.perf_counter() - start))
    return results


def count_verdicts(results: Sequence[Result]) -> dict[str, int]:
    """Count the results by verdict, in the order of `ClaimVerdict`, zeros included.

    A claim that repeats another claim among the results is not counted.

    Examples:
        >>> from hardmax.papers import find_claims
        >>> count_verdicts(run_audit(find_claims("III-E.1")))
        {'holds': 0, 'holds with conditions': 0, 'loose': 0, 'false': 1, 'not checkable': 0}
    """
    counts = Counter(result.finding.verdict for result in _drop_repetitions(results))
    return {verdict.value: counts[verdict] for verdict in ClaimVerdict}


def summary(results: Sequence[Result]) -> str:
    """Return a sentence with the number of claims for each verdict.

    Examples:
        >>> from hardmax.papers import find_claims
        >>> summary(run_audit(find_claims("III-E.1")))
        '1 claim: 0 holds, 0 holds with conditions, 0 loose, 1 false, 0 not checkable.'
    """
    return _format_counts(count_verdicts(results), len(results))


def _format_counts(verdicts: Mapping[str, int], n_claims: int) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
    first = sum(verdicts.values())
    again = n_claims - first
    return f"{first} claim{'s' * (first != 1)}{repetition_remark(again)}: {counts}."


def _drop_repetitions(results: Sequence[Result]) -> list[Result]:
    """Return the results without those whose claim repeats another claim among them."""
    here = {result.claim.id for result in results}
    return [result for result in results if REPEATS.get(result.claim.id) not in here]


def audit_record(results: Sequence[Result]) -> Record:
    """Return one record of all results; its inputs are a fingerprint of the package's code.

    Examples:
        >>> from hardmax.papers import find_claims
        >>> record = audit_record(run_audit(find_claims("III-E.1")))
        >>> [(claim["id"], claim["verdict"]) for claim in record.results["claims"]]
        [('III-E.1', 'false')]
    """
    return Record(
        "audit",
        {"claims": [result.claim.id for result in results]},
        {"verdicts": count_verdicts(results), "claims": [result.row for result in results]},
        inputs=code_fingerprint(),
        seconds=sum(result.seconds for result in results),
    )


def write_audit(results: Sequence[Result], out: Path, name: str = "audit") -> list[Path]:
    """Write a record (JSON), a page (HTML) and one `ID.svg` for each picture to a folder.

    The record is written last. Its entry `files` has the SHA-256 of the other files.

    Args:
        results: The results of `run_audit`.
        out: The folder to write to; it is created if it does not exist.
        name: The name of the record and the page. Use `audit` only for the whole ledger, because
            `read_audit` reads the files of that name.

    Returns:
        The paths of the files written, the record first.

    Raises:
        ArgumentError: If the folder cannot be created or written to.

    Examples:
        >>> import tempfile
        >>> from hardmax.papers import find_claims
        >>> results = run_audit(find_claims("III-E.1"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     [file.name for file in write_audit(results, Path(folder), "one_claim")]
        ['one_claim.json', 'one_claim.html']
    """
    make_folder(out)
    pictures = {result.claim.id: path for result in results if (path := _save_figure(result, out))}
    drawn = {name: path.read_bytes() for name, path in pictures.items()}
    record = audit_record(results)
    files = [out / f"{name}.json", out / f"{name}.html"]
    title = f"{'All claims' if name == 'audit' else f'Claim {name}'}, with recomputed verdicts"
    body = f"<h1>{title}</h1>\n{ledger_html(record_rulings(record), drawn)}\n{bibliography_html()}"
    write_text(files[1], page(title, body))
    digests = {path.name: file_digest(path) for path in [files[1], *pictures.values()]}
    replace(record, results={**record.results, "files": digests}).save(files[0])
    return [*files, *pictures.values()]


def record_rulings(record: Record) -> list[Ruling]:
    """Return the claims in the record of an audit, in the form that a page shows."""
    fields = ("id", "where", "statement", "verdict", "explanation", "corrected")
    return [
        Ruling(**{field: row[field] for field in fields}, repeats=row.get("repeats", ""))
        for row in record.results["claims"]
    ]


def read_audit(out: Path) -> list[Ruling]:
    """Return the ledger that `write_audit` wrote to a folder; an empty list if there is none.

    Examples:
        >>> import tempfile
        >>> from hardmax.papers import find_claims
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = write_audit(run_audit(find_claims("III-E.1")), Path(folder))
        ...     [(ruling.id, ruling.verdict) for ruling in read_audit(Path(folder))]
        [('III-E.1', 'false')]
    """
    try:
        read = record_rulings(Record.load(out / "audit.json"))
    except (FileNotFoundError, RecordFormatError, KeyError, TypeError):
        return []
    is_whole = all(isinstance(text, str) for ruling in read for text in astuple(ruling))
    return read if is_whole else []


def read_current_summary(out: Path) -> str | None:
    """Return the summary of the ledger in a folder if the ledger is up to date, else None.

    The ledger is up to date if the code of this package, the libraries and the files have not
    changed since the whole ledger was written there. There are no other inputs: claims and their
    instances are code.
    """
    try:
        stored = Record.load(out / "audit.json")
        whole = all(file_digest(out / k) == v for k, v in stored.results["files"].items())
        claimed = [claim.id for claim in all_claims()]
        unchanged = (
            stored.parameters["claims"] == claimed
            and dict(stored.versions) == library_versions()
            and stored.inputs == code_fingerprint()
        )
        return (
            _format_counts(stored.results["verdicts"], len(claimed))
            if whole and unchanged
            else None
        )
    except (OSError, RecordFormatError, KeyError, TypeError, AttributeError):
        return None


def _save_figure(result: Result, out: Path) -> Path | None:
    if result.finding.figure is None:
        return None
    from hardmax.plotting.style import off_screen

    path = out / f"{result.claim.id}.svg"
    with off_screen():
        figure = result.finding.figure()
        with atomic_write(path) as stream:
            figure.savefig(stream, format="svg", metadata={"Date": None})
    return path


def _trial_fields(trial: Trial) -> dict[str, Any]:
    return {
        "instance": trial.instance,
        "holds": trial.holds,
        "condition": trial.condition,
        "tight": trial.tight,
        "numbers": dict(trial.numbers),
    }
