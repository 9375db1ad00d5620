"""The machine and the time of a measurement, and whether the machine was quiet."""

import os
import platform
import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardmax import __version__

_BUSY = 0.5
"""Measured times are doubtful if other programs use more than this share of the cores.

Processes that this process does not wait for, such as a browser's, count as other programs.
"""


def processor_name() -> str:
    """Return the name of the processor."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    names = re.findall(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def library_versions() -> str:
    """Return the versions of the measured programs."""
    return f"hardmax {__version__}, Python {platform.python_version()}, numpy {np.__version__}"


@dataclass(frozen=True)
class Moment:
    """The state of the machine at the start of a measurement.

    Attributes:
        load: The load average over the last minute.
        wall: The time of a clock, in seconds.
        busy: CPU seconds of all programs since the machine started; None if not known.
        own: CPU seconds of this process and of the processes that it waited for.
    """

    load: float
    wall: float
    busy: float | None
    own: float


def current_moment() -> Moment:
    """Return the state of the machine now."""
    return Moment(
        os.getloadavg()[0], time.perf_counter(), _total_cpu_seconds(), sum(os.times()[:4])
    )


def describe(began: Moment) -> dict[str, str]:
    """Return facts about a measurement that began at `began` and has just ended."""
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
    """Format such facts as a line of Markdown, with the command that measures."""
    return f"*{'; '.join([f'`{command}`', *facts.values()])}.*"


def _total_cpu_seconds() -> float | None:
    """Return the CPU seconds of all programs since the machine started."""
    try:
        first = Path("/proc/stat").read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft = map(int, first.split()[1:8])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")
