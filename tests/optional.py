"""Install what the optional tests need; `make extras` runs this.

Torch is installed only as a CPU build: the default build for Linux brings gigabytes of CUDA.
Nothing here is required. What cannot be installed is named, and its tests are skipped.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.explorer.browsers import installed_browser

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", str(CONSTRAINTS)]


def install_torch():
    """Install the CPU build of torch if the package index offers one; return the reason if not."""
    if find_spec("torch") is not None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        planned = _run([*PIP, "--dry-run", "--report", str(report), "torch"])
        if planned is not None:
            return planned
        names = [each["metadata"]["name"] for each in json.loads(report.read_text())["install"]]
    if gpu := [name for name in names if name.startswith(("nvidia", "cuda", "triton"))]:
        return f"the index offers only a build that needs {gpu[0]}; install a CPU build by hand"
    return _run([*PIP, "torch"])


def install_tokenizers():
    """Install `tokenizers` without the packages it uses for downloads."""
    return None if find_spec("tokenizers") else _run([*PIP, "--no-deps", "tokenizers"])


def install_chromium():
    """Install Debian's Chromium where this user may; return the reason if that is not possible."""
    if installed_browser() is not None:
        return None
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return "install it with the package manager of this system"
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "update", "-qq"], quiet)
    return _run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], quiet)


def _run(command, environment=None):
    """Run a command; return the end of its output if it fails."""
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
    return None if done.returncode == 0 else lines[-1]


def main():
    """Install each of them, and print which are there."""
    installers = {
        "torch": install_torch,
        "tokenizers": install_tokenizers,
        "Chromium": install_chromium,
    }
    for name, install in installers.items():
        reason = install()
        print(f"{name}: {'installed' if reason is None else f'not installed ({reason})'}")


if __name__ == "__main__":
    main()
