"""Building the core of a checkout: when it is missing, and when a source is newer than it.

Only a checkout comes here; an installed package has its library and builds nothing. The builds are
the presets of `core/CMakePresets.json`, each in `build/<preset>`.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hardmax.errors import CoreError

PRESETS = ("release", "debug", "sanitize")
_HOW = "`make setup` sets up all that is needed"


def up_to_date_folder(checkout: Path, preset: str) -> Path:
    """Return the folder of a build of the core, built again first if it is stale.

    Two processes may ask at once: one builds, the other waits for it.

    Raises:
        CoreError: If the build is unknown or fails, or there is nothing to build with.
    """
    if preset not in PRESETS:
        raise CoreError(f"`HARDMAX_BUILD` must be one of {', '.join(PRESETS)}; got {preset!r}.")
    sources, folder = checkout / "core", checkout / "build" / preset
    if is_stale(sources, folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / ".lock"):
            if is_stale(sources, folder):
                _build(sources, folder, preset)
    return folder


def is_stale(sources: Path, folder: Path) -> bool:
    """Return whether a source was added, removed or changed since the build in `folder` began."""
    built = _built_at(folder)
    return built is None or _newest(sources) > built


def _built_at(folder: Path) -> int | None:
    """Return when the last build began, or, if another tool did it, when it ended."""
    libraries = list(folder.glob("libhardmax-*"))
    if not libraries:
        return None
    with contextlib.suppress(FileNotFoundError):
        return (folder / ".built").stat().st_mtime_ns
    return min(path.stat().st_mtime_ns for path in libraries)


def _newest(folder: Path) -> int:
    """Return the latest time of change in a folder, the folder's own included."""
    newest = folder.stat().st_mtime_ns
    with os.scandir(folder) as entries:
        for entry in entries:
            time_of_change = (
                _newest(Path(entry.path)) if entry.is_dir() else entry.stat().st_mtime_ns
            )
            newest = max(newest, time_of_change)
    return newest


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock, where the system has them."""
    with path.open("w") as file:
        try:
            import fcntl
        except ImportError:
            yield
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(sources: Path, folder: Path, preset: str) -> None:
    print(f"hardmax: building the core ({preset}) in {folder}", file=sys.stderr, flush=True)
    began = time.perf_counter()
    begun = folder / ".begun"
    # A file, not the clock: its time comes from where the times of the sources come from.
    begun.write_text("")
    cmake = _program("cmake")
    if cmake is None:
        raise CoreError(f"the core must be built, and there is no cmake (3.21 or newer): {_HOW}.")
    _forget_missing_tools(folder)
    configure = [cmake, "--preset", preset]
    if not (folder / "CMakeCache.txt").exists() and (ninja := _program("ninja")) is not None:
        configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    _run(configure, sources)
    _run([cmake, "--build", str(folder)], sources)
    os.replace(begun, folder / ".built")
    print(f"hardmax: built in {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


def _program(name: str) -> str | None:
    """Find a program beside the interpreter or on the path."""
    import shutil

    beside = Path(sys.executable).parent
    return shutil.which(name, path=f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


def _compiler_of_the_environment() -> dict[str, str]:
    """Return the variables for the compiler that make put here, if there is no other one."""
    shims = Path(sys.prefix) / "compiler"
    if "CXX" in os.environ or any(map(_program, ("c++", "g++", "clang++"))):
        return {}
    tools = {"CXX": "c++", "CC": "cc", "AR": "ar", "RANLIB": "ranlib"}
    return {key: str(shims / tool) for key, tool in tools.items() if (shims / tool).exists()}


def _forget_missing_tools(folder: Path) -> None:
    """Forget a configuration whose tools are gone, as they are after an isolated build."""
    cache = folder / "CMakeCache.txt"
    if not cache.exists():
        return
    for line in cache.read_text().splitlines():
        key, _, value = line.partition("=")
        tool = key.partition(":")[0] in ("CMAKE_MAKE_PROGRAM", "CMAKE_CXX_COMPILER")
        if tool and not os.path.exists(value):
            import shutil

            shutil.rmtree(folder / "CMakeFiles", ignore_errors=True)
            cache.unlink()
            return


def _run(command: list[str], folder: Path) -> None:
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
