"""A real Dask cluster, of which a worker is killed; skipped where `distributed` is missing."""

import logging
import os
import re
import shlex
import signal
import sys
from pathlib import Path

import pytest

from hardmax._ground import workers
from hardmax._ground.workers import n_workers
from hardmax.cli import main
from hardmax.errors import TaskError
from hardmax.geometry.domains import Box
from hardmax.models.storage import save_model
from hardmax.regions._stores import durable, manifests
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.region_models import gaussian_relu
from tests.regions.test_stores import assert_same

pytest.importorskip("pyarrow")
distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
SQUARE = Box([-2, -2], [3, 3])


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_of_which_a_worker_is_killed_finds_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "LONG_S", 0.0)
    monkeypatch.setattr(durable, "SHORT_S", 0.0)
    monkeypatch.setattr(durable, "BRIEF_S", 0.0)
    model, killed = gaussian_relu(5, [2, 90, 90]), []
    usual = manifests.ManifestLog.add

    def add(log, step):
        usual(log, step)
        if not killed and log.manifest.n_cells:
            pids = client.run(os.getpid)
            killed.append(min(pids.values()))
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(manifests.ManifestLog, "add", add)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as local,
        distributed.Client(local) as client,
    ):
        address = local.scheduler_address
        part = enumerate_regions(
            model, SQUARE, store=tmp_path / "store", workers=2, executor=address
        )
        assert part.n_shards > 2
        assert len(killed) == 1
        assert killed[0] not in client.run(os.getpid).values()
        assert n_workers(None, address) == n_workers(None, client.get_executor())
        files = part.save_certificate(tmp_path / "proof", workers=2, executor=address)
        verdict = verify_certificate(model, files, workers=2, executor=client.get_executor())
        assert (verdict.ok, verdict.n_cells) == (True, part.n_cells)
    assert_same(part, enumerate_regions(model, SQUARE))


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_without_workers_is_given_up_and_the_search_goes_on_later(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(workers, "_ABSENCE_S", 1.5)
    monkeypatch.setattr(workers, "_LOOK_S", 0.1)
    monkeypatch.setattr(workers, "_NOTICE_S", 0.2)
    model, store = gaussian_relu(5, [2, 12, 12]), tmp_path / "store"
    with distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    ) as local:
        address = local.scheduler_address
        with pytest.raises(TaskError, match=r"`executor` must have workers; .* to resume"):
            enumerate_regions(model, SQUARE, store=store, executor=address)
        assert capsys.readouterr().err.count("has no workers; waiting for one") == 1
        stopped = enumerate_regions(model, SQUARE, store=store, executor=address, max_seconds=0.5)
        assert not stopped.is_complete
        monkeypatch.undo()
        local.scale(1)
        part = enumerate_regions(model, SQUARE, store=store, executor=address)
    assert_same(part, enumerate_regions(model, SQUARE))


@pytest.mark.filterwarnings("ignore")
def test_the_lines_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_model(gaussian_relu(5, [2, 12, 12]), "net.safetensors")
    (command,) = re.findall(r"^```sh\nhardmax (.*?)^```$", PAGE.read_text(), re.M | re.S)
    (lines,) = re.findall(r"^```python\n(import.*?)^```$", PAGE.read_text(), re.M | re.S)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
    ) as local:
        found = {}
        exec(lines.replace("tcp://127.0.0.1:8786", local.scheduler_address), found)
        words = ["hardmax", *shlex.split(command.replace("\\\n", ""))]
        words = [local.scheduler_address if word.startswith("tcp:") else word for word in words]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main.run()
        assert ended.value.code == 0
    assert found["part"].n_cells == enumerate_regions(found["model"], Box([-1, -1], [1, 1])).n_cells
