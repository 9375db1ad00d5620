"""The first answer waits for nothing: the README's lines load no compiler and no large library."""

import re
import subprocess
import sys
from pathlib import Path

HEAVY = (
    *("numba", "llvmlite", "scipy", "highspy", "rich", "matplotlib", "pyarrow", "torch"),
    "numpy.ma",
)


def ten_lines():
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    code = readme.split("## Ten lines")[1].split("```python")[1].split("```")[0]
    return "\n".join(re.findall(r"^>>> (.*)$", code, flags=re.MULTILINE))


def loaded_by(program):
    shown = f"\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program + shown], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()[-1]


def test_the_ten_lines_of_the_readme_load_nothing_heavy():
    assert "enumerate_regions" in ten_lines()
    assert loaded_by(ten_lines()) == "[]"


def test_help_loads_nothing_heavy():
    program = "import sys\nfrom hardmax.cli.main import run\nsys.argv = ['hardmax', '--help']\n"
    assert loaded_by(f"{program}try:\n    run()\nexcept SystemExit:\n    pass") == "[]"
