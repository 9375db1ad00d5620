"""The local server: searches, and messages from untrusted clients."""

import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack

import numpy as np
import pytest
from safetensors.numpy import save_file

import hardmax as hm
from hardmax.explorer import server as server_module
from hardmax.explorer.plain_data import model_to_data
from tests.explorer.conftest import Shown

uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
client = pytest.importorskip("websockets.sync.client", reason="websockets is not installed")
exceptions = pytest.importorskip("websockets.exceptions")
PORT_TRIES = 200


class Local:
    """A server in a thread.

    Attributes:
        port: Its port.
        token: What pages say to it.
    """

    def __init__(self, start=None, **more):
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.port, self.token = self.listener.getsockname()[1], "secret"
        config = uvicorn.Config(
            server_module.make_application(start, self.port, self.token, **more),
            log_level="error",
            ws_max_size=server_module.MOST_BYTES,
        )
        self.server = uvicorn.Server(config)
        sockets = {"sockets": [self.listener]}
        self.thread = threading.Thread(target=self.server.run, kwargs=sockets, daemon=True)
        self.thread.start()
        for _ in range(PORT_TRIES):
            if self.server.started:
                break
            time.sleep(0.05)
        assert self.server.started

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/"

    def connect(self, token=None, origin=None):
        secret = self.token if token is None else token
        address = f"ws://127.0.0.1:{self.port}/jobs?token={secret}"
        given = f"http://127.0.0.1:{self.port}" if origin is None else origin
        return client.connect(address, origin=given, max_size=None)

    def close(self):
        self.server.should_exit = True
        self.thread.join(20)
        self.listener.close()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Write a small checkpoint, with an embedding of 30 tokens."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("checkpoint")
    sizes = {
        "wte.weight": (30, 8),
        "wpe.weight": (16, 8),
        "ln_f.weight": 8,
        "ln_f.bias": 8,
        "h.0.ln_1.weight": 8,
        "h.0.ln_1.bias": 8,
        "h.0.ln_2.weight": 8,
        "h.0.ln_2.bias": 8,
        "h.0.attn.c_attn.weight": (8, 24),
        "h.0.attn.c_attn.bias": 24,
        "h.0.attn.c_proj.weight": (8, 8),
        "h.0.attn.c_proj.bias": 8,
        "h.0.mlp.c_fc.weight": (8, 32),
        "h.0.mlp.c_fc.bias": 32,
        "h.0.mlp.c_proj.weight": (32, 8),
        "h.0.mlp.c_proj.bias": 8,
    }
    state = {name: rng.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    save_file(state, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_head": 2}))
    return str(folder)


@pytest.fixture(scope="module")
def local(checkpoint):
    one = Local(offers=[checkpoint, "hardmax"])
    yield one
    one.close()


def relu(width, seed=0):
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(2, width)), rng.normal(size=(width, width)), np.ones((width, 1))]
    return hm.ReluNetwork(weights, [rng.normal(size=width), rng.normal(size=width), None])


def question(number, model, **more):
    return json.dumps(
        {"id": number, "model": model_to_data(model), "domain": {"box": [-1, -1, 1, 1]}, **more}
    )


def answer(connection, number):
    """Wait for the cells that answer a request, and return the header of the answer."""
    while True:
        message = connection.recv(timeout=60)
        if isinstance(message, bytes):
            (length,) = struct.unpack("<I", message[:4])
            header = json.loads(message[4 : 4 + length])
            if header["id"] == number:
                return header
        elif "error" in json.loads(message):
            return json.loads(message)


def test_a_search_finds_what_the_library_finds(local):
    with local.connect() as connection:
        for number, depth in enumerate((2, 1, 0)):
            connection.send(question(number, relu(6), depth=depth))
            network = relu(6).network
            short = hm.models.ArgmaxNetwork(
                network.layers[:depth],
                network.embedding,
                hm.models.AffineMap.identity([2, 6, 6][depth]),
            )
            part = hm.enumerate_regions(short, hm.Box([-1, -1], [1, 1]))
            assert answer(connection, number)["n"] == part.n_cells


HOSTILE = [
    "",
    "{",
    "[" * 100_000,
    "null",
    "3",
    "[]",
    "{}",
    '{"id": "x"}',
    '{"id": 1.5}',
    '{"id": 1}',
    '{"id": 1, "model": null}',
    '{"id": 1, "model": {"kind": "ReluNetwork"}}',
    '{"id": 1, "model": {"kind": "Unknown"}, "domain": {}}',
    '{"id": 1, "model": {"kind": "ReluNetwork", "weights": [[["a"]]], "biases": [[0]]}}',
    '{"id": 1, "model": {"kind": "ReluNetwork", "weights": [[[1e999]]], "biases": [[0]]}}',
    '{"id": 1, "model": {"kind": "AttentionHead", "keys": [[1, 2]], "evil": 1}}',
    '{"id": 1, "model": {"kind": "HardTransformer", "blocks": [{"heads": [], "x": 1}]}}',
    '{"id": 1, "model": {"kind": "ArgmaxNetwork", "layers": [[]], "embedding": 3}}',
    question(1, relu(3), depth=-1),
    question(1, relu(3), depth="deep"),
    question(1, relu(3), domain={"box": [1, 1, 0, 0]}),
    question(1, relu(3), domain={"box": [0, 0, 1]}),
    question(1, relu(3), domain={"box": ["x", 0, 1, 1]}),
    question(1, relu(3), domain={"rows": [["9" * 5000, "1", "1"]]}),
    question(1, relu(3), domain={"rows": []}),
    question(1, relu(3), domain={"rows": [["1", "0", "0"], ["-1", "0", "0"]]}),
    question(1, relu(3), domain={"plane": True, "chart": {"weight": [[1]], "bias": [0]}}),
    question(1, relu(3), domain=7),
    json.dumps({"id": 1, "model": {"kind": "ReluNetwork", "weights": [0] * 1_000_001}}),
    '{"id": 1, "kind": "heads", "name": "/etc/passwd"}',
    '{"id": 1, "kind": "heads", "name": ["x"], "tokens": [1, 2]}',
]


def test_a_hostile_message_gets_an_error_and_harms_nobody(local):
    with local.connect() as other:
        other.send(question(7, relu(24)))
        for message in HOSTILE:
            with local.connect() as connection:
                connection.send(message)
                reply = json.loads(connection.recv(timeout=60))
                assert reply["error"], message[:200]
                connection.send(question(5, relu(3)))
                assert answer(connection, 5)["n"] > 3
        assert answer(other, 7)["n"] > 100


def test_a_checkpoint_that_is_offered_is_run_on_tokens(local, checkpoint):
    with local.connect() as connection:
        ask = {"id": 1, "kind": "heads", "name": checkpoint, "tokens": [3, 14, 15, 9]}
        connection.send(json.dumps(ask))
        heads = json.loads(connection.recv(timeout=60))["heads"]
        weights = hm.load_checkpoint(checkpoint)
        run = hm.models.run_transformer(weights, [3, 14, 15, 9])
        assert heads["layers"][0]["queries"] == run.layers[0].queries.tolist()
        assert heads["labels"] == ["3", "14", "15", "9"]
        connection.send(json.dumps({**ask, "tokens": None, "text": "x" * 20_000}))
        assert "characters" in json.loads(connection.recv(timeout=60))["error"]
        for tokens in ([3], [3, 31], [3, -1], [3, 1.5], "34", [True, 1], [0] * 20, [1] * 1000):
            connection.send(json.dumps({**ask, "tokens": tokens}))
            assert json.loads(connection.recv(timeout=60))["error"]


def test_a_page_runs_a_checkpoint_again_on_other_tokens(chromium, engine, local, checkpoint):
    shown = Shown(chromium)
    shown.context.set_offline(False)
    shown.tab.goto(local.address)
    shown.tab.wait_for_selector("html[data-ready=yes]")
    shown("app.go('real')")
    shown.tab.get_by_label("checkpoint").select_option(checkpoint)
    shown.wait_for("app.view.data.labels.length === 16")
    assert "at random" in shown("app.view.about.textContent")
    shown.tab.get_by_label("a text, or token ids").fill("3, 14 15, 9")
    shown.tab.get_by_role("button", name="run").click()
    shown.wait_for("app.view.data.labels.join() === '3,14,15,9' && app.view.cells")
    assert shown("app.view.layer.is_causal")
    shown.tab.get_by_label("checkpoint").select_option("hardmax")
    shown.tab.get_by_label("a text, or token ids").fill("shrew|ehrsw")
    shown.tab.keyboard.press("Enter")
    shown.wait_for("app.view.data.labels.join('') === 'shrew|ehrsw'")
    shown.tab.get_by_label("checkpoint").select_option(checkpoint)
    shown.tab.get_by_label("a text, or token ids").fill("3, 99")
    shown.tab.get_by_role("button", name="run").click()
    shown.wait_for("!app.view.alarm.hidden")
    assert shown.errors == []
    shown.context.close()


def test_bytes_and_too_long_messages_are_refused(local):
    with local.connect() as connection:
        connection.send(b"\x00\x01")
        assert json.loads(connection.recv(timeout=30))["error"]
    with local.connect() as connection:
        connection.send("x" * (server_module.MOST_BYTES + 10))
        with pytest.raises(exceptions.ConnectionClosed):
            connection.recv(timeout=60)
    with local.connect() as connection:
        connection.send(question(5, relu(3)))
        assert answer(connection, 5)["n"] > 3


@pytest.mark.parametrize(
    ("token", "origin"),
    [
        ("wrong", None),
        ("%D0%BA%D0%BB%D1%8E%D1%87", None),
        ("", None),
        (None, "http://elsewhere.example"),
        (None, "null"),
    ],
)
def test_a_stranger_cannot_connect(local, token, origin):
    with (
        pytest.raises(exceptions.InvalidStatus) as refused,
        local.connect(token=token, origin=origin),
    ):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize("host", ["elsewhere.example", "127.0.0.1", "localhost:1"])
def test_another_name_that_leads_here_is_refused(local, host):
    request = urllib.request.Request(local.address, headers={"Host": host})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    refused.value.close()
    assert refused.value.code == 403


def test_a_newer_question_takes_the_place_of_an_older_one(local):
    with local.connect() as connection:
        connection.send(question(1, relu(400)))
        connection.send(question(2, relu(4)))
        assert answer(connection, 2)["id"] == 2


def test_a_search_is_given_up_when_asked(local):
    with local.connect() as connection:
        connection.send(question(1, relu(400)))
        while "progress" not in json.loads(connection.recv(timeout=60)):
            pass
        connection.send(json.dumps({"id": 1, "kind": "cancel"}))
        connection.send(question(2, relu(4)))
        assert answer(connection, 2)["id"] == 2


def test_pages_beyond_the_limit_wait_outside(local):
    with ExitStack() as opened:
        for _ in range(server_module.MOST_PAGES):
            opened.enter_context(local.connect())
        with pytest.raises(exceptions.InvalidStatus), local.connect():
            pass


def test_a_certificate_is_made_and_checked(local):
    with local.connect() as connection:
        connection.send(question(3, relu(5), kind="certificate"))
        reply = json.loads(connection.recv(timeout=60))
        part = hm.enumerate_regions(relu(5), hm.Box([-1, -1], [1, 1]))
        assert (reply["isProved"], reply["n"]) == (True, part.n_cells)
        claim = hm.Certificate.from_json(reply["certificate"])
        assert hm.verify_certificate(relu(5), claim).ok
        connection.send(question(4, relu(400), kind="certificate"))
        assert "at most" in json.loads(connection.recv(timeout=60))["error"]


def test_a_page_without_an_engine_asks_the_server_and_says_so(chromium, monkeypatch):
    monkeypatch.setattr("hardmax.explorer.joined_page.read_engine", lambda: b"")
    start = hm.explore(relu(8), hm.Box([-2, -2], [2, 2])).start
    one, shown = Local(start), Shown(chromium)
    shown.context.set_offline(False)
    shown.tab.goto(one.address)
    shown.tab.wait_for_selector("html[data-ready=yes]")
    shown.wait_for("app.view.cells")
    part = hm.enumerate_regions(relu(8), hm.Box([-2, -2], [2, 2]))
    assert shown.count("cells") == part.n_cells
    assert "native engine" in shown.tab.locator("#panel .hint").first.inner_text()
    shown.tab.get_by_role("button", name="certificate", exact=True).click()
    with shown.tab.expect_download() as waiting:
        shown.tab.get_by_role("button", name="certificate.json").click()
    claim = hm.Certificate.load(waiting.value.path())
    assert hm.verify_certificate(relu(8), claim).ok
    assert (
        f"all cells are listed, {part.n_cells} in total" in shown.tab.locator("#panel").inner_text()
    )
    assert shown.errors == []
    shown.context.close()
    one.close()


def test_a_long_search_goes_to_the_native_engine(chromium, engine):
    start = hm.explore(relu(8), hm.Box([-2, -2], [2, 2])).start
    one, shown = Local(start), Shown(chromium)
    shown.context.set_offline(False)
    shown.tab.goto(one.address)
    shown.tab.wait_for_selector("html[data-ready=yes]")
    shown.wait_for("app.view.cells?.counts && app.server.isOpen")
    count = shown.count("cells")
    # Simulate a slow thread by not calling it at all.
    shown("(app.view.cells = null, app.worker.postMessage = () => {}, app.view.ask())")
    shown("(app.view.question.isNative = true, app.server.ask(app.view.question))")
    shown.wait_for("app.view.cells")
    assert shown.count("cells") == count
    assert shown.errors == []
    addresses = {address.split("?")[0] for address in shown.requests if "blob:" not in address}
    assert addresses <= {one.address, "data:,"}
    shown.context.close()
    one.close()
