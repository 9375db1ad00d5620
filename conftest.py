"""What all tests share, those in docstrings included."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def interrupts_act() -> Iterator[None]:
    """Let Ctrl-C act: workers of pytest-xdist ignore it, and so would every process they start."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)
