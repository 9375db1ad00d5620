"""Models on the page: the output of `explore` and of the command."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import hardmax as hm
from hardmax.errors import ArgumentError
from hardmax.explorer.joined_page import join_modules
from hardmax.explorer.plain_data import domain_to_data, model_to_data
from tests.explorer.conftest import PAGE


def start_of(text):
    tag = '<script type="application/json" id="start">'
    return json.loads(re.search(f"{tag}(.*?)</script>", text)[1])


def test_the_page_is_one_file_that_asks_for_nothing(tmp_path):
    hm.explore().save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    # Pictures are embedded in the SVG as data; nothing else has an address.
    assert not re.search(r"""(?:src|href)=["'](?!data:|\$\{picture)""", text)
    assert "https:" not in text
    assert re.findall(r"http://[\w./]+", text) in ([], ["http://www.w3.org/2000/svg"])


def test_modules_of_the_program_keep_no_imports_or_exports():
    assert not re.search(r"^(import|export) ", join_modules(), re.MULTILINE)


def test_the_checker_uses_nothing_else_of_the_page():
    text = (PAGE / "checker.js").read_text(encoding="utf-8")
    assert "import" not in text
    assert "modules." not in text


def test_text_in_a_model_cannot_end_its_element(tmp_path):
    shown = hm.explore()
    shown.start["regions"] = {"name": "</script><script>alert(1)</script>"}
    shown.save(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert start_of(text)["regions"]["name"] == "</script><script>alert(1)</script>"


def test_masked_keys_are_left_out():
    head = hm.AttentionHead(
        np.eye(2), [[1, 0], [0, 1], [2, 2]], np.eye(3, 2), np.eye(2), logit_bias=[0, -np.inf, 1]
    )
    data = model_to_data(head)
    assert data["keys"] == [[1, 0], [2, 2]]
    assert data["logit_bias"] == [0, 1]


def test_a_slice_is_a_chart():
    plane = hm.Slice([0, 0, 1], [[1, 0, 0], [0, 1, 1]], hm.Box([0, 0], [1, 1]))
    data = domain_to_data(plane, 3)
    assert data["chart"] == {"weight": [[1, 0, 0], [0, 1, 1]], "bias": [0, 0, 1]}
    assert [int(x) for x in data["rows"][0]] == [1, 0, 1]


@pytest.mark.parametrize(
    ("obj", "domain", "message"),
    [
        (3, None, "`model` must be a model"),
        (hm.ReluNetwork([np.ones((3, 2)), np.ones((2, 1))]), None, "Choose a plane in R\\^3"),
        (hm.ReluNetwork([np.ones((3, 2)), np.ones((2, 1))]), hm.WholeSpace(3), "dimension 2"),
        ([], None, "a nonempty list of `HeadArrays`"),
    ],
)
def test_what_cannot_be_drawn_is_refused(obj, domain, message):
    with pytest.raises(ArgumentError, match=message):
        hm.explore(obj, domain)


def test_the_command_writes_a_page_with_the_model(tmp_path):
    net = hm.ReluNetwork([np.eye(2), np.ones((2, 1))])
    hm.save_model(net, tmp_path / "net.safetensors")
    command = [sys.executable, "-m", "hardmax", "explore", str(tmp_path / "net.safetensors")]
    more = ["--domain", "box:0,1^2", "--export", str(tmp_path / "site")]
    done = subprocess.run([*command, *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    regions = start_of((tmp_path / "site" / "index.html").read_text(encoding="utf-8"))["regions"]
    assert regions["model"]["weights"] == [[[1, 0], [0, 1]], [[1], [1]]]
    assert regions["domain"] == {"box": [0, 0, 1, 1]}
