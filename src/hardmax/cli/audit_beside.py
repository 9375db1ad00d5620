"""Run the audit in its own process, in parallel with the experiments.

`python -m hardmax.cli.audit_beside` is that process. On two cores, both together take little longer
than the slower of the two.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardmax.errors import ArgumentError


@contextmanager
def start_audit(out: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run the audit in a child process while the block runs; kill it if the block fails."""
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


def wait_for_audit(process: "subprocess.Popen[str]") -> str:
    """Wait for the audit and return its summary.

    Raises:
        ArgumentError: If the audit failed; the message quotes its last line of output.
    """
    printed, errors = process.communicate()
    if process.returncode:
        reason = errors.strip().splitlines()[-1:] or [f"status {process.returncode}"]
        raise ArgumentError(f"The audit into the folder `out` failed: {reason[0]}.")
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
