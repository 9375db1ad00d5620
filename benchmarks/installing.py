"""Sizes and times of an installation: `python -m benchmarks.installing [--write]`.

The wheels and sources are the files in `dist/` that `make wheel` and `make cross` wrote. The
dependencies of hardmax are measured where they are installed in this environment. The core is
compiled once more, in a separate folder.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

from benchmarks.facts import time_first_answer
from benchmarks.machine import current_moment, describe, format_line
from benchmarks.tables import Table, replace_between_marks, to_markdown

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "install.md"
EXTRAS = "torch", "onnx", "arrow", "store", "dask", "app", "notebooks"


def list_requirements(name: str, extra: str = "") -> set[str]:
    """Return a package and its dependencies with an extra, if they are installed.

    Raises:
        PackageNotFoundError: If one of them is not installed.
    """
    found, waiting = set(), [(name, extra)]
    while waiting:
        package, wanted = waiting.pop()
        if (package, wanted) in found:
            continue
        found.add((package, wanted))
        for text in distribution(package).requires or []:
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": wanted}):
                waiting += [(one.name, inner) for inner in one.extras or {""}]
    return {package for package, _ in found}


def package_size(name: str) -> int:
    """Return the disk space of a package's files, without compiled bytecode."""
    files = distribution(name).files or []
    paths = {Path(str(file.locate())) for file in files if file.suffix != ".pyc"}
    return sum(map(disk_space, paths))


def disk_space(path: Path) -> int:
    """Return the bytes of the blocks that a file or folder occupies, as `du` counts them."""
    return path.stat().st_blocks * 512 if path.exists() else 0


def list_built_files() -> list[tuple[str, str]]:
    """Return the sizes of the files in `dist/`."""
    rows = [("sources", _megabytes(p.stat().st_size)) for p in (ROOT / "dist").glob("*.tar.gz")]
    for path in sorted((ROOT / "dist").glob("*.whl")):
        machine = next((one for one in ("x86_64", "aarch64") if one in path.name), "")
        with ZipFile(path) as wheel, tempfile.TemporaryDirectory() as folder:
            wheel.extractall(folder)
            size = sum(map(disk_space, Path(folder).rglob("*")))
        sizes = f"{_megabytes(path.stat().st_size)}, installed {_megabytes(size)}"
        rows.append((f"wheel, Linux {machine}", sizes))
    return rows


def list_packages() -> list[tuple[str, str]]:
    """Return the sizes of the dependencies of hardmax, and of the additional ones of its extras."""
    base = list_requirements("hardmax") - {"hardmax"}
    rows = [("dependencies, installed", _megabytes(sum(map(package_size, base))))]
    for extra in EXTRAS:
        try:
            more = list_requirements("hardmax", extra) - base - {"hardmax"}
            size = _megabytes(sum(map(package_size, more)))
        except PackageNotFoundError as error:
            size = f"not measured: {error.name} is not installed"
        rows.append((f"additional dependencies of `hardmax[{extra}]`", size))
    return rows


def time_import() -> float:
    """Return the CPU seconds that a new process takes to import hardmax."""
    code = "import time; t = time.process_time(); import hardmax; print(time.process_time() - t)"
    command = [sys.executable, "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(5)]
    return statistics.median(float(run.stdout) for run in runs)


def time_compilation() -> float:
    """Return the CPU seconds of compiling the core."""
    before = os.times()
    tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    with tempfile.TemporaryDirectory() as folder:
        for command in (["--preset", "release", "-B", folder, "-G", "Ninja"], ["--build", folder]):
            subprocess.run(
                ["cmake", *command],
                cwd=ROOT / "core",
                env={**os.environ, "PATH": tools},
                check=True,
                capture_output=True,
            )
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size < 1e7 else f"{size / 1e6:.0f} MB"


def main() -> None:
    began = current_moment()
    rows = [*list_built_files(), *list_packages()]
    rows.append(("`import hardmax`, CPU time", f"{time_import():.2f} s"))
    rows.append(("the ten lines of the README, CPU time", f"{time_first_answer():.1f} s"))
    rows.append(("compiling the core from source, CPU time", f"{time_compilation():.0f} s"))
    stamp = format_line("python -m benchmarks.installing", describe(began))
    text = f"{to_markdown(Table('', ('', ''), rows))}\n{stamp}\n"
    print(text)
    if "--write" in sys.argv:
        replace_between_marks(PAGE, "sizes", text)


if __name__ == "__main__":
    main()
