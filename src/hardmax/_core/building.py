"""Building the core of a checkout: when it is missing, and when a source is newer than it.

Only a checkout comes here; an installed package has its library and builds nothing. The builds are
the presets of `core/CMakePresets.json`, each in `build/<preset>`.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator

from hardmax.errors import CoreError

PRESETS = ("release", "debug", "sanitize")
_HOW = "`make setup` sets up all that is needed"


def up_to_date_folder(checkout: str, preset: str) -> str:
    """Return the folder of a build of the core, built again first if it is stale.

    Two processes may ask at once: one builds, the other waits for it.

    Raises:
        CoreError: If the build is unknown or fails, or there is nothing to build with.
    """
    if preset not in PRESETS:
        raise CoreError(f"`HARDMAX_BUILD` must be one of {', '.join(PRESETS)}; got {preset!r}.")
    sources, folder = os.path.join(checkout, "core"), os.path.join(checkout, "build", preset)
    if is_stale(sources, folder):
        os.makedirs(folder, exist_ok=True)
        with _locked(os.path.join(folder, ".lock")):
            if is_stale(sources, folder):
                _build(sources, folder, preset)
    return folder


def is_stale(sources: str, folder: str) -> bool:
    """Return whether a source was added, removed or changed since the build in `folder` began."""
    built = _built_at(folder)
    return built is None or _newest(sources) > built


def _built_at(folder: str) -> int | None:
    """Return when the last build began, or, if another tool did it, when it ended."""
    if not os.path.isdir(folder):
        return None
    with os.scandir(folder) as entries:
        times = {entry.name: entry.stat().st_mtime_ns for entry in entries}
    libraries = [times[name] for name in times if name.startswith("libhardmax-")]
    return times.get(".built", min(libraries)) if libraries else None


def _newest(folder: str) -> int:
    """Return the latest time of change in a folder, the folder's own included."""
    newest = os.stat(folder).st_mtime_ns
    with os.scandir(folder) as entries:
        for entry in entries:
            changed = _newest(entry.path) if entry.is_dir() else entry.stat().st_mtime_ns
            newest = max(newest, changed)
    return newest


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Hold a file lock, where the system has them."""
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
    # A file, not the clock: its time comes from where the times of the sources come from.
    with open(begun, "w"):
        os.utime(begun)
    cmake = _program("cmake")
    if cmake is None:
        raise CoreError(f"the core must be built, and there is no cmake (3.21 or newer): {_HOW}.")
    _forget_missing_tools(folder)
    configure = [cmake, "--preset", preset]
    cache = os.path.join(folder, "CMakeCache.txt")
    if not os.path.exists(cache) and (ninja := _program("ninja")) is not None:
        configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    _run(configure, sources)
    _run([cmake, "--build", folder], sources)
    os.replace(begun, os.path.join(folder, ".built"))
    print(f"hardmax: built in {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


def _program(name: str) -> str | None:
    """Find a program beside the interpreter or on the path."""
    import shutil

    beside = os.path.dirname(sys.executable)
    return shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


def _compiler_of_the_environment() -> dict[str, str]:
    """Return the variables for the compiler that make put here, if there is no other one."""
    shims = os.path.join(sys.prefix, "compiler")
    if "CXX" in os.environ or any(map(_program, ("c++", "g++", "clang++"))):
        return {}
    names = {"CXX": "c++", "CC": "cc", "AR": "ar", "RANLIB": "ranlib"}
    tools = {key: os.path.join(shims, name) for key, name in names.items()}
    return tools if all(map(os.path.exists, tools.values())) else {}


def _forget_missing_tools(folder: str) -> None:
    """Forget a configuration whose tools are gone, as they are after an isolated build."""
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

    # The libraries a sanitizer preloads are for the tests, not for the compiler.
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    environment.update(_compiler_of_the_environment())
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        output = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
        raise CoreError(
            f"the core could not be built ({' '.join(command)}); {_HOW}. It said:\n{output}"
        )
