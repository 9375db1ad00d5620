"""Where and when something was measured, and whether the machine was quiet."""

import os
import platform
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardmax import __version__

_BUSY = 0.5
"""Other programs on more than this part of the cores make times doubtful.

Processes that nobody waits for, as those of a browser, count among the others.
"""


def processor_name() -> str:
    """Return what the machine calls its processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    names = re.findall(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def library_versions() -> str:
    """Return the versions of what was measured."""
    return f"hardmax {__version__}, Python {platform.python_version()}, numpy {np.__version__}"


@dataclass(frozen=True)
class Moment:
    """When something began.

    Attributes:
        load: How many programs wanted to run, over the last minute.
        wall: Seconds of a clock.
        busy: CPU seconds of all programs since the machine started; None where that is not known.
        own: CPU seconds of this process and of those it waited for.
    """

    load: float
    wall: float
    busy: float | None
    own: float


def current_moment() -> Moment:
    """Return the present moment."""
    return Moment(
        os.getloadavg()[0], time.perf_counter(), _total_cpu_seconds(), sum(os.times()[:4])
    )


def describe(began: Moment) -> dict[str, str]:
    """Say where and when something was measured that began then and is over now."""
    ended = current_moment()
    wall = ended.wall - began.wall
    load = f"load {began.load:.2f} at the start"
    if began.busy is not None and ended.busy is not None:
        others = max(0.0, ended.busy - began.busy - (ended.own - began.own)) / max(wall, 1e-9)
        load += f"; other programs used {others:.2f} cores"
        if others > _BUSY * (os.cpu_count() or 1):
            load += ": BUSY, do not publish these times"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor_name(),
        "versions": library_versions(),
        "load": load,
        "took": f"duration {wall:.0f} s",
    }


def format_line(command: str, facts: dict[str, str]) -> str:
    """Return such facts as a line of Markdown, with the command that measures."""
    return f"*{'; '.join([f'`{command}`', *facts.values()])}.*"


def _total_cpu_seconds() -> float | None:
    """Return the CPU seconds that all programs used since the machine started."""
    try:
        first = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft = map(int, first.split()[1:8])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")
