"""Files whose readers fail in every way the fuzzer must notice."""

import os
import signal
import time
import warnings

import numpy as np

from hardmax.errors import ArgumentError
from tests.fuzz.trials import FalseClaimError, Kind


def _crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def _hang():
    while True:
        pass


def _delay():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass


def _refuse():
    raise ArgumentError("a refusal")


def _raise():
    raise IndexError("a raw exception")


def _claim():
    raise FalseClaimError("a false claim")


WAYS = {
    "sound": lambda: None,
    "refuse": _refuse,
    "raise": _raise,
    "warn": lambda: warnings.warn("a warning", RuntimeWarning, stacklevel=1),
    "claim": _claim,
    "crash": _crash,
    "hang": _hang,
    "delay": _delay,
    "memory": lambda: np.ones(1 << 22),
}


def forged(rng):
    return {"way": rng.choice([*WAYS]).encode()}


def used(rng, folder):
    WAYS[(folder / "way").read_text()]()
    return "read"


FAULTS = Kind(forged, used, most_seconds=0.4, most_bytes=1 << 24)
