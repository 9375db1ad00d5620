"""The wait for the compiler: announced, interruptible, and over once."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap

import numba
import pytest
from numba.core import event

from hardmax import compilation
from hardmax.compilation import announce_compilation


def fresh_loop(module="hardmax.loops"):
    def loop(n):
        total = 0
        for i in range(n):
            total += i
        return total

    loop.__module__ = module
    return numba.njit(loop)


@pytest.fixture
def said(monkeypatch):
    announce_compilation()
    lines = []
    monkeypatch.setattr(compilation, "_print", lines.append)
    return lines


def wait_for_the_timer(dispatcher):
    """Slow the compiler down until the timer has spoken."""

    class Slow(event.Listener):
        def on_start(self, event):
            for thread in compilation.threading.enumerate():
                if isinstance(thread, compilation.threading.Timer):
                    thread.join()

        def on_end(self, event):
            pass

    with event.install_listener("numba:run_pass", Slow()):
        return dispatcher(4)


def test_a_long_wait_is_announced_once_and_its_end_too(said, monkeypatch):
    monkeypatch.setattr(compilation, "_PATIENCE_S", 0.0)
    loop = fresh_loop()
    assert wait_for_the_timer(loop) == 6
    assert said[0] == "compiling once, up to half a minute; later runs start at once ..."
    assert said[1].startswith("compiled in ")
    assert loop(4) == 6
    assert len(said) == 2


def test_the_large_searches_say_how_long_they_take(said, monkeypatch):
    monkeypatch.setattr(compilation, "_PATIENCE_S", 0.0)
    wait_for_the_timer(fresh_loop("hardmax._kernels.planar_search"))
    assert said[0].startswith("compiling once, about a minute;")


def test_a_short_wait_and_loops_of_others_are_not_announced(said, monkeypatch):
    monkeypatch.setattr(compilation, "_PATIENCE_S", 3600.0)
    assert fresh_loop()(4) == 6
    monkeypatch.setattr(compilation, "_PATIENCE_S", 0.0)
    assert wait_for_the_timer(fresh_loop("someone.else")) == 6
    assert said == []


@pytest.mark.parametrize("at", [1, 5, 20])
def test_an_interrupt_ends_the_wait_and_the_next_call_compiles(said, at):
    loop = fresh_loop()
    passes = []

    class Impatient(event.Listener):
        def on_start(self, event):
            passes.append(1)
            if len(passes) == at:
                signal.raise_signal(signal.SIGINT)

        def on_end(self, event):
            pass

    with pytest.raises(KeyboardInterrupt), event.install_listener("numba:run_pass", Impatient()):
        loop(4)
    assert len(passes) <= at + 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert loop(4) == 6
    assert said == []


@pytest.mark.usefixtures("said")
def test_an_interrupt_while_saving_waits_until_all_is_saved():
    loop = fresh_loop()
    saved = []

    def save(signature, result):
        signal.raise_signal(signal.SIGINT)
        saved.append(signature)

    type(loop._cache).save_overload, kept = (
        lambda self, *arguments: save(*arguments),
        type(loop._cache).save_overload,
    )
    try:
        with pytest.raises(KeyboardInterrupt):
            loop(4)
    finally:
        type(loop._cache).save_overload = kept
    assert len(saved) == 1
    assert loop(4) == 6


def test_ctrl_c_in_the_first_search_leaves_a_whole_cache(tmp_path):
    script = """
        import numpy as np, hardmax as hm
        net = hm.ReluNetwork([np.ones((3, 2)), np.ones((2, 1))])
        hm.Box, hm.enumerate_regions
        print("READY", flush=True)
        try:
            hm.enumerate_regions(net, hm.Box([-1] * 3, [1] * 3))
        except hm.errors.Interrupted as stop:
            print(stop.partial.n_cells)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    try:
        assert process.stdout.readline() == "READY\n"
        first = process.stderr.readline()
        if not first:
            pytest.skip("nothing had to be compiled")
        assert first.startswith("hardmax: compiling once")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, "at least 0\n")
    assert "Traceback" not in err
    assert "ignored" not in err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".nbi", ".nbc"}
    for index in (path for path in files if path.suffix == ".nbi"):
        with index.open("rb") as stream:
            pickle.load(stream)
            _, names = pickle.loads(stream.read())
        assert all((index.parent / name).is_file() for name in names.values())
