"""The core is found, loaded, checked and kept up to date."""

import os
import re
import shutil
import subprocess
import sys
import threading
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import pytest

from hardmax._core import building, library
from hardmax.errors import CoreError, HardmaxError
from tests.core.instruction_sets import FOLDER, LIBRARIES, RUNNABLE

ROOT = Path(__file__).parents[2]
HEADER = (ROOT / "core" / "include" / "hardmax" / "interface.h").read_text()
NUMBERS = {
    "void": None,
    "double": c_double,
    "int32_t": c_int32,
    "int64_t": c_int64,
    "size_t": c_size_t,
}


def run_python(code, **environment):
    """Run code in a fresh interpreter; return what it did."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
        capture_output=True,
        text=True,
    )


def accepted(argument):
    """Return the ctypes that may stand for an argument of the header, as `const double *x`."""
    kind, _, is_array = re.fullmatch(r"\s*(.*?)(\w+)\s*(\[\d*\])?", argument).groups()
    *words, number = kind.replace("const", "").replace("*", " * ").split()
    if number == "*" or is_array:
        number = words[-1] if number == "*" else number
        exact = {"char": c_char_p}.get(number) or POINTER(NUMBERS.get(number) or c_void_p)
        return {c_void_p, exact} if number != "char" else {exact}
    return {NUMBERS[number]}


def test_the_declared_signatures_are_those_of_the_header():
    declarations = re.findall(r"^HM_API ([^;]+?)\b(hm_\w+)\(([^)]*)\);", HEADER, re.M)
    assert {name for _, name, _ in declarations} == set(library.SIGNATURES)
    for result, name, arguments in declarations:
        kinds = [] if arguments == "void" else arguments.split(",")
        declared = library.SIGNATURES[name]
        assert len(declared) == 1 + len(kinds), name
        for kind, used in zip([f"{result} result", *kinds], declared, strict=True):
            # What turns a refusal into an error takes a status.
            number = c_int32 if used is library.check_status else used
            assert number in accepted(kind), (name, kind)
    assert f"HM_OUT_OF_RANGE = {library.OUT_OF_RANGE} " in HEADER
    assert f"#define HM_INTERFACE_VERSION {library.INTERFACE_VERSION}\n" in HEADER


def test_a_library_says_what_it_was_compiled_for():
    assert [core.hm_instruction_set().decode() for core in LIBRARIES] == list(RUNNABLE)


def test_the_widest_library_that_runs_is_loaded():
    name = "from hardmax._core.library import core; print(core().hm_instruction_set().decode())"
    assert run_python(name, HARDMAX_CPU="").stdout.strip() == RUNNABLE[-1]
    assert run_python(name, HARDMAX_CPU="baseline").stdout.strip() == "baseline"


def test_an_unknown_instruction_set_is_refused():
    done = run_python("from hardmax._core.library import core; core()", HARDMAX_CPU="native")
    assert "`HARDMAX_CPU` must be one of baseline, x86-64-v3; got 'native'" in done.stderr


def test_a_missing_library_says_how_to_build_it(tmp_path):
    with pytest.raises(CoreError, match=r"is missing: .*libhardmax-baseline.*`make setup`"):
        library.load(tmp_path, "baseline")
    assert issubclass(CoreError, HardmaxError)
    assert issubclass(CoreError, ImportError)


def test_a_file_that_is_no_library_is_named(tmp_path):
    Path(library.library_path(tmp_path, "baseline")).write_text("text")
    with pytest.raises(CoreError, match=r"cannot be loaded: .*libhardmax-baseline"):
        library.load(tmp_path, "baseline")


def test_a_library_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(library, "INTERFACE_VERSION", library.INTERFACE_VERSION + 1)
    with pytest.raises(CoreError, match=r"has interface version \d+, but this package needs \d+"):
        library.load(FOLDER, "baseline")


def set_control_word(code):
    """Run code after changing how this thread computes, through the C library."""
    before = "import ctypes; m = ctypes.CDLL(None); "
    return run_python(f"{before}{code}; from hardmax._core.library import core; core()")


@pytest.mark.skipif(sys.platform != "linux", reason="FE_UPWARD has another number elsewhere")
def test_a_thread_that_rounds_upwards_is_refused():
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[os.uname().machine]
    rounding = f"ctypes.CDLL('libm.so.6').fesetround({upward})"
    assert "no sign could be proven" in set_control_word(rounding).stderr
    assert set_control_word("pass").returncode == 0


TOY = {
    "CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.21)
        set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
        project(toy LANGUAGES CXX)
        add_library(hardmax-baseline SHARED src/version.cpp)
    """,
    "src/version.cpp": """
        #include "version.h"
        extern "C" int hm_interface_version() { return VERSION; }
    """,
    "src/version.h": "#define VERSION 1\n",
}


def toy_checkout(folder):
    """Write a checkout whose core is one function, so that it is built in no time."""
    for name, text in TOY.items():
        path = folder / "core" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copy(ROOT / "core" / "CMakePresets.json", folder / "core")
    return folder


def version_in(folder):
    """Ask a library for its version, without the checks."""
    path = library.library_path(folder, "baseline")
    code = f"import ctypes; print(ctypes.CDLL({path!r}).hm_interface_version())"
    return int(run_python(code).stdout)


def test_an_edited_header_is_never_stale(tmp_path):
    checkout = toy_checkout(tmp_path)
    folder = building.up_to_date_folder(checkout, "release")
    assert version_in(folder) == 1
    assert not building.is_stale(checkout / "core", folder)
    (checkout / "core" / "src" / "version.h").write_text("#define VERSION 77\n")
    assert building.is_stale(checkout / "core", folder)
    assert building.up_to_date_folder(checkout, "release") == folder
    assert version_in(folder) == 77
    assert not building.is_stale(checkout / "core", folder)


def test_an_added_file_and_a_removed_one_make_a_build_stale(tmp_path):
    checkout = toy_checkout(tmp_path)
    folder = building.up_to_date_folder(checkout, "release")
    added = checkout / "core" / "src" / "added.cpp"
    added.touch()
    assert building.is_stale(checkout / "core", folder)
    building.up_to_date_folder(checkout, "release")
    assert not building.is_stale(checkout / "core", folder)
    added.unlink()
    assert building.is_stale(checkout / "core", folder)


def test_a_build_that_fails_says_what_the_compiler_said_and_is_tried_again(tmp_path):
    checkout = toy_checkout(tmp_path)
    source = checkout / "core" / "src" / "version.cpp"
    source.write_text("#error deliberate\n")
    for _ in range(2):
        with pytest.raises(CoreError, match=r"(?s)could not be built.*deliberate"):
            building.up_to_date_folder(checkout, "release")
    source.write_text(TOY["src/version.cpp"])
    assert version_in(building.up_to_date_folder(checkout, "release")) == 1


def test_a_build_whose_tools_are_gone_is_configured_anew(tmp_path):
    """As after an isolated build, which takes its tools away with it."""
    checkout = toy_checkout(tmp_path)
    folder = building.up_to_date_folder(checkout, "release")
    cache = Path(folder) / "CMakeCache.txt"
    gone = re.sub(r"(?m)^(CMAKE_MAKE_PROGRAM:\w+)=.*$", r"\1=/gone/ninja", cache.read_text())
    cache.write_text(gone)
    (checkout / "core" / "src" / "version.h").write_text("#define VERSION 2\n")
    building.up_to_date_folder(checkout, "release")
    assert "/gone/ninja" not in cache.read_text()
    assert version_in(folder) == 2


def test_two_that_ask_at_once_build_once(tmp_path, capfd):
    checkout = toy_checkout(tmp_path)
    askers = [
        threading.Thread(target=building.up_to_date_folder, args=(checkout, "release"))
        for _ in range(2)
    ]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert capfd.readouterr().err.count("building the core") == 1


def test_an_unknown_build_is_refused(tmp_path):
    with pytest.raises(CoreError, match="`HARDMAX_BUILD` must be one of release, debug, sanitize"):
        building.up_to_date_folder(tmp_path, "fastest")


def test_loading_the_core_imports_nothing_heavy():
    done = run_python(
        "import sys; from hardmax._core.library import core; core(); print(' '.join(sys.modules))"
    )
    assert not {"numpy", "pathlib", "subprocess", "shutil", "hashlib"} & set(done.stdout.split())


@pytest.mark.skipif(os.environ.get("HARDMAX_BUILD") != "sanitize", reason="needs the sanitizers")
def test_the_sanitizer_stops_a_write_beyond_the_end():
    done = run_python(
        "from ctypes import c_double; from hardmax._core.library import core\n"
        "core().hm_test_grow((c_double * 8)(*(2.0 ** (60 * i) for i in range(8))), 8, 2.0**-60)"
    )
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
