"""`hardmax regions`, `verify` and `plot` from a shell."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import typer
from safetensors.numpy import save_file
from typer.testing import CliRunner

from hardmax._ground import progress
from hardmax._ground.records import Record, fingerprint
from hardmax.bounds.transformers import transformer_upper
from hardmax.cli.flags import add_quiet_option
from hardmax.cli.main import app
from hardmax.constructions.compilers.maxout_compiler import compile_relu
from hardmax.errors import ArgumentError, HardmaxError, RecordFormatError
from hardmax.geometry.domain_text import EXAMPLES, parse_domain
from hardmax.geometry.domains import Box
from hardmax.models.heads import AttentionHead
from hardmax.models.networks import MaxoutNetwork, ReluNetwork
from hardmax.models.storage import save_model
from hardmax.models.transformers import Block, FeedForward, HardTransformer
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.regions.arrow_tables import load_partition
from hardmax.regions.certificate_format import Certificate
from hardmax.regions.engines import enumerate_regions
from hardmax.regions.stores import open_partition
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram

RNG = np.random.default_rng(0)
NET = ReluNetwork([RNG.normal(size=(2, 4)), RNG.normal(size=(4, 3)), RNG.normal(size=(3, 1))])
KEYS = RNG.normal(size=(6, 2))
HEAD = AttentionHead(np.eye(2), KEYS, KEYS, np.eye(2))
SQUARE = "box:-1,1^2"


@pytest.fixture
def net(tmp_path):
    save_model(NET, tmp_path / "net.safetensors")
    return tmp_path / "net.safetensors"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def lines(result):
    """Return the printed lines by their first words."""
    pairs = [re.split(r" {2,}", line, maxsplit=1) for line in result.stdout.splitlines()]
    return {pair[0]: pair[-1] for pair in pairs}


def refusal(*words):
    result = run(*words)
    assert isinstance(result.exception, HardmaxError), result.output
    return str(result.exception)


def test_the_three_counts_are_printed_each_with_its_name(net):
    part = enumerate_regions(NET, parse_domain(SQUARE))
    result = run("regions", net, "--domain", SQUARE)
    assert result.exit_code == 0
    shown = lines(result)
    assert shown["cells"] == str(part.n_cells)
    assert shown["regions"] == str(part.n_regions)
    assert shown["affine maps"] == str(part.n_affine_maps)
    assert shown["domain"] == SQUARE


def test_counting_prints_the_cells_alone(net):
    shown = lines(run("regions", net, "--domain", SQUARE, "--count"))
    assert shown["cells"] == str(enumerate_regions(NET, parse_domain(SQUARE)).n_cells)
    assert "regions" not in shown
    assert "affine maps" not in shown


def test_everything_is_written_and_verifies(net, tmp_path):
    pytest.importorskip("pyarrow")
    names = "cells.parquet", "proof.json", "cells.svg"
    out, proof, picture = (tmp_path / name for name in names)
    words = ["--out", out, "--certificate", proof, "--plot", picture]
    result = run("regions", net, "--domain", SQUARE, *words)
    assert result.exit_code == 0, result.output
    part = load_partition(out)
    assert str(part.n_cells) == lines(result)["cells"]
    assert Certificate.load(proof).n_cells == part.n_cells
    assert "<svg" in picture.read_text()
    checked = run("verify", net, proof, "--domain", SQUARE)
    assert checked.exit_code == 0
    assert lines(checked)["ok"] == f"all cells are listed: {part.n_cells}"
    assert lines(checked)["domain"] == SQUARE
    for option in ((), ("--dark",)):
        again = run("plot", out, "-o", tmp_path / "again.svg", *option)
        assert again.exit_code == 0
        same = (tmp_path / "again.svg").read_text() == picture.read_text()
        assert same == (not option)


def test_a_path_and_an_unbounded_domain_are_drawn_with_their_counts(net, tmp_path):
    path = tmp_path / "path.svg"
    found = run("regions", net, "--domain", "segment:-1,-1;1,1", "--plot", path)
    assert found.exit_code == 0, found.output
    text = path.read_text()
    assert f"{lines(found)['cells']} cells, " in text
    assert ">cells<" in text
    model = random_transformer(np.random.default_rng(1), 4, 2, 4, 2)
    save_model(model, tmp_path / "model")
    counted = run("regions", tmp_path / "model", "--domain", "space:2", "--plot", path)
    n_inside = enumerate_regions(model, Box([-4, -4], [4, 4])).n_cells
    n_cells = int(lines(counted)["cells"])
    assert f">{n_cells - n_inside} of {n_cells} cells lie outside this window<" in path.read_text()
    one = run("regions", net, "--domain", "segment:9,9;9.001,9", "--plot", path)
    assert lines(one)["cells"] == "1"
    assert "1 cell, 1 region, 1 affine map<" in path.read_text()


def test_a_table_of_the_cells_needs_no_pyarrow(net, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = run("regions", net, "--domain", SQUARE, "--out", tmp_path / "cells.csv")
    assert result.exit_code == 0, result.output
    table = (tmp_path / "cells.csv").read_text().splitlines()
    assert table[0] == "signature,volume,witness,map"
    assert str(len(table) - 1) == lines(result)["cells"]
    assert "is not installed" in refusal("regions", net, "--domain", SQUARE, "--out", "x.parquet")


def test_json_is_a_record_of_the_counts_and_nothing_else(net, tmp_path):
    part = enumerate_regions(NET, parse_domain(SQUARE))
    words = ["--out", tmp_path / "cells.csv", "--certificate", tmp_path / "proof.json"]
    result = run("regions", net, "--domain", "box:-1,1;-1,1", "--json", *words)
    assert result.exit_code == 0, result.output
    found = Record.from_json(result.stdout)
    assert found.parameters["model"] == str(net)
    assert found.parameters["domain"] == SQUARE
    assert found.inputs == fingerprint(NET.network)
    assert found.results == {
        "n_cells": part.n_cells,
        "n_regions": part.n_regions,
        "n_affine_maps": part.n_affine_maps,
        "is_complete": True,
        "engine": "planar",
        "files": {"out": str(words[1]), "certificate": str(words[3])},
    }
    stopped = run("regions", net, "--domain", SQUARE, "--json", "--max-cells", 3)
    assert stopped.exit_code == 1
    results = json.loads(stopped.stdout)["results"]
    assert (results["n_cells"], results["is_complete"]) == (3, False)
    counted = json.loads(run("regions", net, "--domain", SQUARE, "--json", "--count").stdout)
    assert counted["results"]["n_cells"] == part.n_cells
    assert "n_regions" not in counted["results"]


@pytest.mark.parametrize(
    "domain",
    [
        "space:2",
        "segment:0,0.1;1,2.3",
        "ray:0,0;1,2",
        "line:0,1;1,2",
        "slice:0,0;1,0;1,1",
        "slice:0,0;1,0;0,2|box:-1,1^2",
        "polytope:1,0<=1;0,1<=1;-1,-1<=0",
    ],
)
def test_a_certificate_shows_its_domain_and_another_one_beside_it(net, tmp_path, domain):
    proof = tmp_path / "proof.json"
    run("regions", net, "--domain", domain, "--certificate", proof)
    shown = lines(run("verify", net, proof, "--domain", domain))
    assert "--domain" not in shown
    assert shown["domain"] == domain
    assert "ok" in shown
    other = run("verify", net, proof, "--domain", SQUARE)
    assert other.exit_code == 1
    assert (lines(other)["domain"], lines(other)["--domain"]) == (domain, SQUARE)


def test_a_certificate_that_proves_nothing_ends_with_status_1(net, tmp_path):
    proof = tmp_path / "proof.json"
    run("regions", net, "--domain", SQUARE, "--certificate", proof)
    content = json.loads(proof.read_text())
    for name in ("signatures", "witnesses"):
        content[name] = content[name][:-1]
    (tmp_path / "short.json").write_text(json.dumps(content))
    for flags in ([], ["--simple"], ["--workers", "2"]):
        result = run("verify", net, tmp_path / "short.json", *flags)
        assert result.exit_code == 1
        assert "not ok" in lines(result)
        assert run("verify", net, proof, *flags).exit_code == 0
    other = run("verify", net, proof, "--domain", "box:-1,2^2")
    assert other.exit_code == 1
    shown = lines(other)
    assert shown["domain"] == SQUARE
    assert shown["--domain"] == "box:-1,2^2"
    assert shown["not ok"] == "the certificate is about another domain."


def test_a_limit_says_at_least_and_ends_with_status_1(net, tmp_path):
    pytest.importorskip("pyarrow")
    words = ["--domain", SQUARE, "--max-cells", 3]
    result = run("regions", net, *words, "--out", tmp_path / "out.parquet")
    assert result.exit_code == 1
    shown = lines(result)
    assert shown["cells"] == "at least 3"
    assert "regions" not in shown  # Cells not found yet may join two regions.
    assert shown["incomplete"].startswith("--max-cells")
    assert not load_partition(tmp_path / "out.parquet").is_complete
    assert "`--certificate` needs all cells" in refusal(
        "regions", net, *words, "--certificate", tmp_path / "proof.json"
    )


def files_of_every_kind(folder):
    ffn = FeedForward(KEYS[:3].T, np.zeros(3), KEYS[:3], np.zeros(2))
    transformer = HardTransformer([Block([HEAD], ffn)])
    models = {
        "relu": NET,
        "maxout": MaxoutNetwork([[np.eye(2), -np.eye(2)], np.ones((2, 1))]),
        "transformer": transformer,
        "network": transformer.network,
        "head": HEAD,
    }
    for name, model in models.items():
        save_model(model, folder / name)
    compiled = compile_relu(NET, Box([-1, -1], [1, 1]))
    compiled.save(folder / "compiled")
    tensors = {f"{2 * i}.weight": np.array(w.T, order="C") for i, w in enumerate(NET.weights)}
    save_file(tensors, folder / "state")
    n_cells = {
        name: enumerate_regions(model, parse_domain(SQUARE)).n_cells
        for name, model in {**models, "compiled": compiled, "state": NET}.items()
        if name != "head"
    }
    return n_cells | {"head": len(PowerDiagram.from_keys(KEYS).active.nonzero()[0])}


def test_every_model_file_is_read(tmp_path):
    for name, n_cells in files_of_every_kind(tmp_path).items():
        result = run("regions", tmp_path / name, "--domain", SQUARE, "--count")
        assert result.exit_code == 0, result.output
        assert lines(result)["cells"] == str(n_cells), name
        assert ("assumed" in lines(result)) == (name == "state")


def test_an_onnx_file_with_a_skip_connection_is_read_as_a_graph(tmp_path):
    onnx = pytest.importorskip("onnx")
    make, kind = onnx.helper, onnx.TensorProto.DOUBLE
    x, y = (make.make_tensor_value_info(name, kind, ["n", 2]) for name in "xy")
    weight = onnx.numpy_helper.from_array(np.array([[1.0, 2.0], [-1.0, 0.5]]), "w")
    nodes = [
        make.make_node("MatMul", ["x", "w"], ["z"]),
        make.make_node("Relu", ["z"], ["h"]),
        make.make_node("Add", ["x", "h"], ["y"]),
    ]
    path = tmp_path / "net.onnx"
    onnx.save(make.make_model(make.make_graph(nodes, "net", [x], [y], [weight])), str(path))
    words = ["regions", str(path), "--domain", SQUARE]
    found = CliRunner().invoke(app, words)
    assert re.search(r"cells +4\nregions +4\naffine maps +4\nsearch .* engine graph", found.stdout)
    certificate = tmp_path / "c.json"
    written = CliRunner().invoke(app, [*words, "--certificate", str(certificate)])
    assert re.search(r"cells +4\n", written.stdout)
    checked = CliRunner().invoke(app, ["verify", str(path), str(certificate)])
    assert checked.exit_code == 0
    picture = ["--domain", "segment:-1,-1;1,0.5", "--plot", str(tmp_path / "path.svg")]
    drawn = CliRunner().invoke(app, ["regions", str(path), *picture])
    assert drawn.exit_code == 0
    assert "engine graph" in drawn.stdout
    assert ">largest<" in (tmp_path / "path.svg").read_text()
    unbounded = CliRunner().invoke(app, ["regions", str(path), "--domain", "space:2"])
    assert "`--domain` must be bounded for a GraphNetwork" in str(unbounded.exception)


def test_every_kind_of_domain_is_read(tmp_path):
    for text in EXAMPLES:
        domain = parse_domain(text)
        net = ReluNetwork([RNG.normal(size=(domain.ambient_dim, 3)), np.ones((3, 1))])
        save_model(net, tmp_path / "net")
        result = run("regions", tmp_path / "net", "--domain", text)
        assert result.exit_code == 0, result.output
        assert lines(result)["cells"] == str(enumerate_regions(net, domain).n_cells)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            ["--domain", "box:1,-1"],
            "`--domain` must be a domain, such as 'box:-1,1^2'. In 'box:1,-1'",
        ),
        (["--domain", "cube"], "got 'cube'"),
        (["--domain", "box:-1,1^3"], "`--domain` must lie in the input space"),
        (["--domain", SQUARE, "--max-cells", "-1"], "`--max-cells` must be at least 0"),
        (["--domain", SQUARE, "--max-seconds", "-1"], "`--max-seconds` must be at least 0"),
        (["--domain", SQUARE, "--count", "--plot", "x.png"], "`--count` stores no cells"),
        (["--domain", SQUARE, "--plot", "x.xyz"], "`--plot` must end in one of"),
        (
            ["--domain", SQUARE, "--plot", "no/such/x.png"],
            "`--plot` must be a file in an existing folder",
        ),
        (["--domain", SQUARE, "--certificate", "no/such/x"], "`--certificate` must be a file in"),
        (
            ["--domain", "box:0,1^4", "--plot", "x.png"],
            "`--plot` draws domains of dimension 1 to 3",
        ),
        (
            ["--domain", SQUARE, "--out", "no/such/x.csv"],
            "`--out` must be a file in an existing folder",
        ),
        (["--domain", SQUARE, "--out", "cells"], "`--out` must end in .csv or .parquet"),
        (["--domain", SQUARE, "--out", "cells.json"], "selects the format; got 'cells.json'"),
    ],
)
def test_a_refusal_names_the_flag(net, words, reason):
    assert reason in refusal("regions", net, *words)


def test_a_hopeless_search_is_refused_with_what_to_type(tmp_path):
    rng = np.random.default_rng(0)
    wide = ReluNetwork([rng.normal(size=(784, 64)), rng.normal(size=(64, 10))])
    save_model(wide, tmp_path / "wide.safetensors")
    words = [tmp_path / "wide.safetensors", "--domain", "box:0,1^784", "--max-seconds", "5"]
    reason = refusal("regions", *words)
    assert "`--domain` has 784 dimensions" in reason
    assert "the first cell would take" in reason
    assert "`--max-seconds` is 5" in reason
    for name in ("Segment", "Slice", "sample_regions", "cell_at", '"segment:0^784;1^784"'):
        assert name in reason
    words[2] = "segment:0^784;1^784"
    assert run("regions", *words).exit_code == 0


def test_files_that_cannot_be_read_are_named(net, tmp_path):
    (tmp_path / "garbage").write_bytes(b"garbage")
    assert "`MODEL` must be a file that can be opened" in refusal(
        "regions", tmp_path / "missing", "--domain", SQUARE
    )
    assert re.search(
        "`MODEL` must be .*garbage", refusal("regions", tmp_path / "garbage", "--domain", SQUARE)
    )
    assert "`CERTIFICATE` must be a file" in refusal("verify", net, tmp_path / "missing")
    assert re.search("`CERTIFICATE` must .*net", refusal("verify", net, net))
    assert "`FILE` must be" in refusal("plot", tmp_path / "garbage")
    assert "`--domain` is required" in refusal("plot", net)
    assert "`--window` must be a Box" in refusal(
        "plot", net, "--domain", "space:2", "--window", "space:2", "-o", tmp_path / "x.png"
    )
    for flag in ("--color", "--colour"):
        message = refusal("plot", net, flag, "red")
        assert message == f"`{flag}` must be one of region, map, cell; got 'red'."


def test_a_partition_of_another_domain_is_not_drawn(net, tmp_path):
    pytest.importorskip("pyarrow")
    run("regions", net, "--domain", SQUARE, "--out", tmp_path / "cells.parquet")
    words = ["-o", tmp_path / "x.png", "--domain", "box:-1,2^2"]
    assert "a different domain" in refusal("plot", tmp_path / "cells.parquet", *words)


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (["bounds", "--keys", 0, "--heads", 1, "--dim", 2], "--keys"),
        (["bounds", "--keys", 2, "--heads", 0, "--dim", 2], "--heads"),
        (["bounds", "--keys", 2, "--heads", 1, "--dim", 0], "--dim"),
        (["bounds", "--keys", 2, "--heads", 1, "--dim", 2, "--d-ff", -1], "--d-ff"),
        (["bounds", "--keys", 2, "--heads", 1, "--dim", 2, "--head-dim", 0], "--head-dim"),
        (["stability", "--keys", 0, "--margin", 1, "--d-k", 2], "--keys"),
        (["stability", "--keys", 2, "--margin", -1, "--d-k", 2], "--margin"),
        (["stability", "--keys", 2, "--margin", 1, "--d-k", 0], "--d-k"),
        (["stability", "--keys", 2, "--margin", 1, "--d-k", 2, "--tau", -1], "--tau"),
        (["audit", "--claim", "nothing"], "--claim"),
        (["reproduce", "nothing"], "NAMES"),
        (["query", "x", "--out", "/dev/null/x"], "--out"),
        (["compile", "/dev/null/x", "-o", "x"], "NETWORK"),
    ],
)
def test_every_command_names_the_flag_that_was_typed(words, flag):
    assert f"`{flag}` must" in refusal(*words)


def test_bounds_restrict_the_head_size_only_when_asked():
    shape = ["--keys", 6, "--heads", 2, "--dim", 2, "--d-ff", 8, "--depth", 2]
    numbers = {}
    for head_dim in (None, 1):
        extra = [] if head_dim is None else ["--head-dim", head_dim]
        rows = json.loads(run("bounds", *shape, *extra, "--json").stdout)
        wanted = transformer_upper(6, 2, 2, 8, 2, bias="query", head_dim=head_dim)
        (row,) = (r for r in rows if (r["name"], r["kind"]) == ("model, query bias", "upper"))
        assert int(row["value"]) == wanted
        numbers[head_dim] = wanted
    assert numbers == {None: 1_774_224, 1: 21_904}


def test_a_search_into_a_folder_goes_on(net, tmp_path):
    pytest.importorskip("pyarrow")
    command = ["regions", str(net), "--domain", SQUARE, "--store", str(tmp_path / "store")]
    stopped = CliRunner().invoke(app, [*command, "--max-seconds", "0"])
    assert stopped.exit_code == 1
    assert "at least 0" in stopped.stdout
    done = CliRunner().invoke(app, [*command, "--certificate", str(tmp_path / "cells.json")])
    assert done.exit_code == 0, done.output
    whole = enumerate_regions(NET, Box([-1, -1], [1, 1]))
    assert re.search(rf"cells +{whole.n_cells}\n", done.stdout)
    assert (tmp_path / "cells.json").read_text() == whole.certificate().to_json()
    proof = str(tmp_path / "proof")
    assert CliRunner().invoke(app, [*command, "--certificate", proof]).exit_code == 0
    checked = CliRunner().invoke(app, ["verify", str(net), proof, "--domain", SQUARE])
    assert checked.exit_code == 0, checked.output
    assert f"all cells are listed: {whole.n_cells}" in checked.stdout
    (tmp_path / "empty").mkdir()
    refused = CliRunner().invoke(app, ["verify", str(net), str(tmp_path / "empty")])
    assert "has no .json files" in str(refused.exception)
    refused = CliRunner().invoke(app, [*command, "--max-cells", "3"])
    with pytest.raises(ArgumentError, match="`--max-cells` cannot be combined with `--store`"):
        raise refused.exception


def test_names_inside_a_file_are_not_taken_for_flags():
    from hardmax.cli.flags import rename_arguments

    with (
        pytest.raises(RecordFormatError, match="`MODEL` must hold a model; `dim` is missing"),
        rename_arguments(dim="--dim", path="MODEL"),
    ):
        raise RecordFormatError("`path` must hold a model; `dim` is missing.")
    with pytest.raises(ArgumentError, match=r"`--dim` .* `other`"), rename_arguments(dim="--dim"):
        raise ArgumentError("`dim` must be at least `other`.")


def test_the_package_is_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "hardmax", "--version"], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+", done.stdout.strip())


def interrupted(command, seconds):
    """Press Ctrl-C after some seconds; return standard output and standard error."""
    program = str(Path(sys.executable).with_name("hardmax"))
    with subprocess.Popen(
        [program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.splitlines()[-1] == "hardmax: interrupted; finished results are kept"
    return printed, errors


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_prints_what_was_found_and_ends_with_status_130(tmp_path):
    rng = np.random.default_rng(1)
    wide = ReluNetwork([rng.normal(size=(12, 24)), rng.normal(size=(24, 1))])
    save_model(wide, tmp_path / "wide")
    command = ["regions", str(tmp_path / "wide"), "--domain", "box:-1,1^12", "--count"]
    printed, _ = interrupted(command, 4.0)
    assert printed == "" or re.search(r"cells +at least \d+", printed)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("executor", [[], ["--executor", "processes"]])
def test_ctrl_c_keeps_what_is_in_a_store(tmp_path, executor):
    pytest.importorskip("pyarrow")
    rng, sizes = np.random.default_rng(1), [2, 512, 512, 512, 512, 1]
    biases = [rng.normal(size=n) for n in sizes[1:]]
    wide = ReluNetwork([rng.normal(size=pair) for pair in pairwise(sizes)], biases)
    save_model(wide, tmp_path / "wide")
    command = ["regions", str(tmp_path / "wide"), "--domain", "space:2", "--store"]
    printed, _ = interrupted([*command, str(tmp_path / "store"), "--workers", "2", *executor], 6.0)
    if printed:
        found = re.search(r"cells +at least (\d+)", printed)
        assert int(found[1]) == open_partition(tmp_path / "store").n_found


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_ends_a_sweep_at_once(tmp_path, workers):
    sizes = ["--keys", "96", "--heads", "6", "--depth", "12", "--d-ff", "256"]
    table = tmp_path / "sweep.csv"
    interrupted(["sweep", *sizes, "--seeds", "0:3", "--out", str(table), "--workers", workers], 4.0)


def test_a_certificate_in_parts_is_gone_on_with(net, tmp_path):
    pytest.importorskip("pyarrow")
    command = ["regions", str(net), "--domain", SQUARE, "--store", str(tmp_path / "store")]
    (tmp_path / "proof").mkdir()
    for _ in range(2):
        answer = CliRunner().invoke(app, [*command, "--certificate", str(tmp_path / "proof")])
        assert answer.exit_code == 0, answer.output
        assert "certificate" in answer.output
    answer = CliRunner().invoke(app, ["verify", str(net), str(tmp_path / "proof")])
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize("words", [[], ["--quiet"]])
def test_quiet_hides_the_progress_of_one_command(words):
    seen = []

    def show(text: str) -> None:
        seen.append((text, progress.is_shown()))

    shell = typer.Typer()
    shell.command()(add_quiet_option(show))
    assert CliRunner().invoke(shell, ["text", *words]).exit_code == 0
    assert seen == [("text", not words)]
    assert progress.is_shown()


def test_every_command_can_be_quiet():
    for command in app.registered_commands:
        assert "quiet" in inspect.signature(command.callback).parameters or (
            command.callback.__name__ == "info"
        )
