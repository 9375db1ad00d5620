"""Building the core of a checkout if it is missing or older than one of its sources.

This module is used only in a checkout; an installed package contains the library. The builds are
the presets of `core/CMakePresets.json`, each in the folder `build/<preset>`.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator

from hardmax.errors import CoreError

PRESETS = ("release", "debug", "sanitize")
_HOW = "run `make setup` to install everything that is needed"


def up_to_date_folder(checkout: str, preset: str) -> str:
    """Return the folder of a build of the core; rebuild it first if it is stale.

    If two processes call this at the same time, one builds and the other waits for it.

    Raises:
        CoreError: If the preset is unknown, the build fails, or a tool is missing.
    """
    if preset not in PRESETS:
        raise CoreError(f"`HARDMAX_BUILD` must be one of {', '.join(PRESETS)}; got {preset!r}.")
    sources, folder = os.path.join(checkout, "core"), os.path.join(checkout, "build", preset)
    if is_stale(sources, folder):
        os.makedirs(folder, exist_ok=True)
        with _hold_lock(os.path.join(folder, ".lock")):
            if is_stale(sources, folder):
                _build(sources, folder, preset)
    return folder


def is_stale(sources: str, folder: str) -> bool:
    """Return whether a source was added, removed or changed since the build in `folder` began."""
    built = _build_time(folder)
    return built is None or _latest_change(sources) > built


def _build_time(folder: str) -> int | None:
    """Return the start time of the last build, or its end time if another tool built it."""
    if not os.path.isdir(folder):
        return None
    with os.scandir(folder) as entries:
        times = {entry.name: entry.stat().st_mtime_ns for entry in entries}
    libraries = [times[name] for name in times if name.startswith("libhardmax-")]
    return times.get(".built", min(libraries)) if libraries else None


def _latest_change(folder: str) -> int:
    """Return the latest modification time of a folder and everything in it."""
    newest = os.stat(folder).st_mtime_ns
    with os.scandir(folder) as entries:
        for entry in entries:
            changed = _latest_change(entry.path) if entry.is_dir() else entry.stat().st_mtime_ns
            newest = max(newest, changed)
    return newest


@contextlib.contextmanager
def _hold_lock(path: str) -> Iterator[None]:
    """Hold a file lock, if the system supports it."""
    with open(path, "w") as file:
        try:
            import fcntl
        except ImportError:
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(sources: str, folder: str, preset: str) -> None:
    print(f"hardmax: building the core ({preset}) in {folder}", file=sys.stderr, flush=True)
    began = time.perf_counter()
    begun = os.path.join(folder, ".begun")
    # Use the time of a new file, not the clock: it comes from the same file system as the sources.
    with open(begun, "w"):
        os.utime(begun)
    cmake = _find_program("cmake")
    if cmake is None:
        raise CoreError(
            f"the core must be built, but cmake (3.21 or newer) is not installed: {_HOW}."
        )
    _drop_stale_configuration(folder)
    configure = [cmake, "--preset", preset]
    cache = os.path.join(folder, "CMakeCache.txt")
    if not os.path.exists(cache) and (ninja := _find_program("ninja")) is not None:
        configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    _run(configure, sources)
    _run([cmake, "--build", folder], sources)
    os.replace(begun, os.path.join(folder, ".built"))
    print(f"hardmax: built in {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


def _find_program(name: str) -> str | None:
    """Find a program in the folder of the interpreter or on the path."""
    import shutil

    beside = os.path.dirname(sys.executable)
    return shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


def _environment_compiler() -> dict[str, str]:
    """Return the variables for the compiler installed by `make setup`, if there is no other one."""
    shims = os.path.join(sys.prefix, "compiler")
    if "CXX" in os.environ or any(map(_find_program, ("c++", "g++", "clang++"))):
        return {}
    names = {"CXX": "c++", "CC": "cc", "AR": "ar", "RANLIB": "ranlib"}
    tools = {key: os.path.join(shims, name) for key, name in names.items()}
    return tools if all(map(os.path.exists, tools.values())) else {}


def _drop_stale_configuration(folder: str) -> None:
    """Delete a configuration whose tools no longer exist, as after an isolated build."""
    cache = os.path.join(folder, "CMakeCache.txt")
    if not os.path.exists(cache):
        return
    with open(cache) as file:
        lines = file.read().splitlines()
    for line in lines:
        key, _, value = line.partition("=")
        tool = key.partition(":")[0] in ("CMAKE_MAKE_PROGRAM", "CMAKE_CXX_COMPILER")
        if tool and not os.path.exists(value):
            import shutil

            shutil.rmtree(os.path.join(folder, "CMakeFiles"), ignore_errors=True)
            os.unlink(cache)
            return


def _run(command: list[str], folder: str) -> None:
    import subprocess

    # Libraries preloaded for a sanitizer are meant for the tests, not for the compiler.
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    environment.update(_environment_compiler())
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        output = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise CoreError(
            f"the core could not be built ({' '.join(command)}); {_HOW}. Output:\n{output}"
        )
