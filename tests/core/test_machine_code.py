"""What the compiler made of the core: read from the machine code."""

import os
import platform
import re
import shutil
import subprocess
import sys
from functools import cache

import pytest

from hardmax._core.library import library_path
from tests.core.instruction_sets import FOLDER

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files"),
    pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump"),
    pytest.mark.skipif(
        os.path.basename(FOLDER) == "sanitize", reason="the sanitizers add code of their own"
    ),
]
on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="names x86-64 registers")

# Registers and prefixes that a processor of 2003 does not have: AVX and later (every VEX and EVEX
# instruction begins with v), wide registers, fused operations, BMI, counts of bits. What is printed
# as tzcnt is fine: old processors run the same bytes as bsf, and compilers use it where both agree.
WIDER = re.compile(
    r"%[yz]mm|\tv[a-z]|\t(?:andn|bextr|bls\w+|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|lzcnt|"
    r"popcnt|movbe|pshufb|round[sp][sd]|blendv\w+|pext[rb]\w*|ptest|hadd\w+|addsub\w+)\b"
)
# x87 would round twice; the control register would change how every thread computes.
UNSOUND = re.compile(r"\tf(?:ld|st|add|mul|sub|div)|%st\b|\tldmxcsr")


def objdump(*arguments):
    return subprocess.run(
        ["objdump", *arguments], capture_output=True, text=True, check=True
    ).stdout


@cache
def instructions(instruction_set):
    listing = objdump("-d", "--no-show-raw-insn", library_path(FOLDER, instruction_set))
    lines = [line for line in listing.splitlines() if re.match(r"\s+[0-9a-f]+:\t", line)]
    assert len(lines) > 100
    return lines


@on_x86_64
def test_the_baseline_runs_on_every_processor_of_its_kind():
    # processor.cpp asks, in so many words, whether the system saves the wide registers.
    found = [line for line in instructions("baseline") if WIDER.search(line)]
    assert found == []


@on_x86_64
def test_the_search_for_wider_instructions_finds_them_where_they_are():
    assert any("vfmadd" in line or "vfmsub" in line for line in instructions("x86-64-v3"))
    assert any(WIDER.search(line) for line in instructions("x86-64-v3"))


@on_x86_64
@pytest.mark.parametrize("instruction_set", ["baseline", "x86-64-v3"])
def test_arithmetic_is_done_in_float64_and_nothing_else(instruction_set):
    assert [line for line in instructions(instruction_set) if UNSOUND.search(line)] == []


def test_the_library_needs_the_c_library_at_most():
    headers = objdump("-p", library_path(FOLDER, "baseline"))
    needed = set(re.findall(r"NEEDED\s+(\S+)", headers))
    assert needed <= {"libc.so.6", "libm.so.6"}
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", headers)
    assert all((int(major), int(minor)) <= (2, 28) for major, minor in versions)


def test_only_the_interface_is_visible():
    table = objdump("-T", library_path(FOLDER, "baseline"))
    defined = [line.split()[-1] for line in table.splitlines() if ".text" in line]
    assert defined
    assert all(name.startswith("hm_") for name in defined)


def test_no_mathematical_function_is_called_that_could_round_twice():
    """Only what copies, fills or compares memory, and what is exact or correctly rounded."""
    table = objdump("-T", library_path(FOLDER, "baseline"))
    missing = {line.split()[-1] for line in table.splitlines() if "*UND*" in line}
    starting = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize"}
    memory = {"memcpy", "memset", "memmove", "memcmp"}
    # Some systems, Ubuntu for one, compile everything so that overrun memory is noticed.
    guards = {"__stack_chk_fail", *(f"__{name}_chk" for name in memory)}
    assert missing <= starting | memory | guards | {"__gmon_start__", "ldexp", "sqrt", "fabs"}
