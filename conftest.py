"""What all tests share, those in docstrings included."""

import signal
from collections import Counter
from collections.abc import Iterator

import pytest

ENABLED_BY = {
    "torch": "make extras",
    "tokenizers": "make extras",
    "browser": "make extras",
    "weights": "make checkpoints",
    "engine of the page": "make explorer",
    "sanitizers": "make sanitize",
    "node ": "install Node.js",
    "root ": "run the tests as another user",
    "objdump": "install binutils",
}
"""What enables a skipped test, by a word of the reason; other tests concern another platform."""


@pytest.fixture(scope="session", autouse=True)
def interrupts_act() -> Iterator[None]:
    """Let Ctrl-C act: workers of pytest-xdist ignore it, and so would every process they start."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List how many tests were skipped, why, and the command that enables them."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped tests, and what enables them")
    for reason, count in reasons.most_common():
        command = next((ENABLED_BY[word] for word in ENABLED_BY if word in reason), None)
        enabled_by = "not on this machine" if command is None else f"to enable: {command}"
        terminalreporter.write_line(f"{count:5d}  {reason}; {enabled_by}")
