"""Running the ledger: every check once, the results as a record, a page and pictures."""

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardmax.audit.claims import Claim, Finding, Trial, Verdict
from hardmax.audit.ledger import REPEATS, all_claims
from hardmax.errors import ArgumentError, RecordFormatError
from hardmax.files import replacing, write_text
from hardmax.pages import Ruling, ledger, page
from hardmax.progress import track
from hardmax.records import Record


@dataclass(frozen=True, eq=False)
class Result:
    """One claim with what its check found just now.

    Attributes:
        claim: The claim.
        finding: The finding, whose verdict comes from its trials.
        seconds: How long the check took.
    """

    claim: Claim[Any]
    finding: Finding
    seconds: float

    @property
    def row(self) -> dict[str, Any]:
        """The claim and the finding as plain values, in the order of a table."""
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
            "trials": [_trial_row(trial) for trial in self.finding.trials],
            "seconds": self.seconds,
        }


def run_audit(claims: Sequence[Claim[Any]] | None = None) -> list[Result]:
    """Check claims, with a progress bar on a terminal.

    Args:
        claims: Which; the whole ledger if None.

    Returns:
        One result per claim, in order.

    Examples:
        >>> from hardmax.audit.ledger import find_claims
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
    """Count the results by verdict, in the order of `Verdict`, zeros included.

    What is said twice is counted once: an entry that repeats another one of the results is not.
    """
    counts = Counter(result.finding.verdict for result in _said_first(results))
    return {verdict.value: counts[verdict] for verdict in Verdict}


def summary(results: Sequence[Result]) -> str:
    """Return how many claims got which verdict, in words."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in count_verdicts(results).items())
    first = len(_said_first(results))
    again = len(results) - first
    repeated = f" ({again} more are said again elsewhere)" if again else ""
    return f"{first} claims{repeated}: {counts}."


def _said_first(results: Sequence[Result]) -> list[Result]:
    """Return the results without those whose claim repeats that of another of them."""
    here = {result.claim.id for result in results}
    return [result for result in results if REPEATS.get(result.claim.id) not in here]


def audit_record(results: Sequence[Result]) -> Record:
    """Pack results as one record, which reads back bit for bit."""
    return Record(
        "audit",
        {"claims": [result.claim.id for result in results]},
        {"verdicts": count_verdicts(results), "claims": [result.row for result in results]},
        seconds=sum(result.seconds for result in results),
    )


def make_folder(out: Path) -> None:
    """Make a folder if it is not there, and see that a file can be written to it.

    Raises:
        ArgumentError: If it cannot.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise ArgumentError(f"`out` must be a folder that can be written; {error}.") from None


def write_audit(results: Sequence[Result], out: Path, name: str = "audit") -> list[Path]:
    """Write a record (JSON), a page (HTML) and one `ID.svg` for each picture to a folder.

    Args:
        results: What `run_audit` returned.
        out: The folder; made if it is not there.
        name: What record and page are called. Only a whole ledger should be called `audit`: that is
            what `read_audit` reads.

    Returns:
        The files written, the record first.

    Raises:
        ArgumentError: If the folder cannot be written.
    """
    make_folder(out)
    pictures = {result.claim.id: path for result in results if (path := _draw(result, out))}
    drawn = {name: path.read_bytes() for name, path in pictures.items()}
    record = audit_record(results)
    files = [out / f"{name}.json", out / f"{name}.html"]
    record.save(files[0])
    title = f"{'Every claim' if name == 'audit' else name}, checked by running it"
    body = f"<h1>{title}</h1>\n" + ledger(rulings(record), drawn)
    write_text(files[1], page(title, body))
    return [*files, *pictures.values()]


def rulings(record: Record) -> list[Ruling]:
    """Return the claims of an audit's record as a page shows them."""
    fields = ("id", "where", "statement", "verdict", "explanation", "corrected")
    return [
        Ruling(**{field: row[field] for field in fields}, repeats=row.get("repeats", ""))
        for row in record.results["claims"]
    ]


def read_audit(out: Path) -> list[Ruling]:
    """Return the ledger that `write_audit` left in a folder; empty if there is none."""
    try:
        return rulings(Record.load(out / "audit.json"))
    except (FileNotFoundError, RecordFormatError, KeyError, TypeError):
        return []


def _draw(result: Result, out: Path) -> Path | None:
    if result.finding.figure is None:
        return None
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    from hardmax.plotting.style import STYLE

    path = out / f"{result.claim.id}.svg"
    with mpl.rc_context({**STYLE, "backend": "Agg"}):
        figure = result.finding.figure()
        with replacing(path) as stream:
            figure.savefig(stream, format="svg", metadata={"Date": None})
        plt.close(figure)
    return path


def _trial_row(trial: Trial) -> dict[str, Any]:
    return {
        "instance": trial.instance,
        "holds": trial.holds,
        "condition": trial.condition,
        "tight": trial.tight,
        "numbers": dict(trial.numbers),
    }
