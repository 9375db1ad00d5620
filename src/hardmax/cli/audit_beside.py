"""The audit in a process of its own, beside the experiments: `python -m hardmax.cli.audit_beside`.

With two cores both together take little longer than the slower one.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardmax.errors import ArgumentError


@contextmanager
def audit_beside(out: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run the audit into a folder while the block runs; it is stopped if the block fails."""
    command = [sys.executable, "-m", "hardmax.cli.audit_beside", str(out)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def audit_summary(process: "subprocess.Popen[str]") -> str:
    """Wait for the audit and return its summary.

    Raises:
        ArgumentError: If the audit failed, with the last line it wrote.
    """
    printed, errors = process.communicate()
    if process.returncode:
        reason = errors.strip().splitlines()[-1:] or [f"status {process.returncode}"]
        raise ArgumentError(f"`out` must be a folder the audit can be written to; {reason[0]}.")
    return printed.strip()


def main(out: Path) -> None:
    """Check every claim, write the ledger, and print its summary."""
    from hardmax._ground.files import make_folder
    from hardmax.papers.audit import run_audit, summary, write_audit

    make_folder(out)
    results = run_audit()
    write_audit(results, out)
    print(summary(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
