"""Type checking of the forms in which users write models and domains."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACCEPTED = """
from pathlib import Path
import numpy as np
import hardmax as hm
from hardmax.typing import DomainLike, ModelLike, TorchModule

one = np.ones((1, 1))
net = hm.ReluNetwork([one, one])
head = hm.AttentionHead(one, one, one, one)
block = hm.Block([head])
box = hm.Box(-one[0], one[0])
n: int = int(str(hm.enumerate_regions(net, "box:-1,1").n_cells))
proof: hm.Certificate = hm.enumerate_regions(net, box).certificate()
for part in (hm.enumerate_regions(head, box), hm.enumerate_regions(block, "space:1")):
    part.certificate()
hm.enumerate_regions("net.safetensors", "box:-1,1").certificate()
hm.enumerate_regions(Path("net.onnx"), box).decision_boundary
compiled = hm.constructions.compile_relu(net, "box:-1,1")
hm.enumerate_regions(compiled, compiled.box).n_regions
hm.enumerate_regions(net.network, hm.Segment(-one[0], one[0]))
hm.verify_certificate("net.safetensors", "cells.json", "box:-1,1").ok
hm.sample_regions(Path("net.safetensors"), "box:-1,1", 10, 0)
hm.plot(net, "box:-1,1^2", color="map")
hm.explore("net.safetensors", "box:-1,1^2")
hm.cell_at("net.safetensors", [0.5])
radius: float = hm.cell_at(head, [0.5]).certified_radius
cells = hm.enumerate_regions(net, box)
volume: float = cells[-1].volume + sum(cell.volume for cell in cells[:1])
first: hm.regions.Cell | None = cells.cells_at([[0.5]])[0]
hm.save_model(block, "block.safetensors")
hm.Slice(one[0], one, "box:-1,1")


def count(model: ModelLike, domain: DomainLike = "box:-1,1") -> str:
    return repr(hm.enumerate_regions(model, domain).n_cells)


def count_module(module: TorchModule) -> str:
    graph: hm.models.GraphNetwork = hm.load_onnx("net.onnx")
    walked: hm.regions.GraphPartition = hm.enumerate_regions(graph, "segment:0;1")
    return count(module) + count(graph) + count([module]) + repr(walked)


count(net), count("net.safetensors"), count(Path("net.onnx")), count(head), count(block)
"""
REFUSED = """
import hardmax as hm

hm.enumerate_regions(3, "box:-1,1")
hm.enumerate_regions("net.safetensors", [-1, 1])
hm.verify_certificate("net.safetensors", 3)
"""


def run_mypy(code, folder):
    """Return the output of mypy for a program."""
    pytest.importorskip("mypy")
    (folder / "program.py").write_text(code)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml"]
    done = subprocess.run(
        [*command, folder / "program.py"], cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout


def test_every_form_is_accepted(tmp_path):
    assert run_mypy(ACCEPTED, tmp_path).startswith("Success")


def test_the_aliases_have_one_list_of_names():
    names = [
        ast.parse((ROOT / "src" / "hardmax" / f"typing.{kind}").read_text()).body[-1]
        for kind in ("py", "pyi")
    ]
    assert ast.unparse(names[0]) == ast.unparse(names[1])


def test_other_types_are_refused(tmp_path):
    found = run_mypy(REFUSED, tmp_path)
    assert found.count("error:") == 3, found
    assert [f"program.py:{line}: error" in found for line in (4, 5, 6)] == [True] * 3
