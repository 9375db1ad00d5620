"""A real Dask cluster, of which a worker is killed; skipped where `distributed` is missing."""

import logging
import os
import signal

import pytest

from hardmax.geometry.domains import Box
from hardmax.regions._stores import durable, manifests
from hardmax.regions.engines import enumerate_regions
from hardmax.verify.checking import verify_certificate
from tests.region_models import gaussian_relu
from tests.regions.test_stores import assert_same

pytest.importorskip("pyarrow")
distributed = pytest.importorskip("distributed", reason="needs the extra `dask`")

SQUARE = Box([-2, -2], [3, 3])


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_of_which_a_worker_is_killed_finds_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(durable, "LONG_S", 0.0)
    monkeypatch.setattr(durable, "SHORT_S", 0.0)
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
        files = part.save_certificate(tmp_path / "proof", workers=2, executor=address)
        verdict = verify_certificate(model, files, workers=2, executor=client.get_executor())
        assert (verdict.ok, verdict.n_cells) == (True, part.n_cells)
    assert_same(part, enumerate_regions(model, SQUARE))
