"""A LeNet and a ResNet-8 trained with torch, on segments and planes through images.

Images show shapes of ten kinds on a black background, as images of digits do: large parts of two
images are equal, so many windows see the same pixels. The weights are stored in the folder that
`HARDMAX_TRAINED` names, if it is set. With `--full`, larger triangles are searched as well.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.bench_networks import COLUMNS, measure_search, triangle_through_images
from benchmarks.tables import Table
from hardmax.geometry.domains import Segment
from hardmax.models.formats.torch.modules import from_torch
from hardmax.typing import AnyArray, FloatArray

_N_IMAGES, _BATCH = 4000, 100


def draw_shapes(n: int, side: int, n_channels: int, seed: int) -> tuple[FloatArray, AnyArray]:
    """Draw images `(n, n_channels, side, side)` of shapes with soft edges, and their kinds."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 10, n)
    rows, columns = np.mgrid[:side, :side] + 0.5
    images = np.zeros((n, n_channels, side, side), np.float32)
    for i, kind in enumerate(kinds):
        x0, y0 = rng.uniform(0.4, 0.6, 2) * side
        r = rng.uniform(0.2, 0.35) * side
        x, y = (columns - x0) / r, (rows - y0) / r
        far, thick = np.hypot(x, y), 0.3
        inside = (np.abs(x) < 1) & (np.abs(y) < 1)
        drawn = [
            far < 1,
            np.abs(far - 0.85) < thick / 2,
            inside,
            inside & (np.maximum(np.abs(x), np.abs(y)) > 0.7),
            inside & (np.abs(x) < thick),
            inside & (np.abs(y) < thick),
            inside & ((np.abs(x) < thick) | (np.abs(y) < thick)),
            inside & (np.abs(x - y) < thick),
            inside & (np.abs(x + y) < thick),
            (y > -1) & (y < 1) & (np.abs(x) < (y + 1) / 2),
        ][kind]
        colour = rng.uniform(0.5, 1.0, n_channels)
        images[i] = colour[:, None, None] * drawn
    return images, kinds


def lenet() -> nn.Module:
    """LeNet-5 with ReLUs and max pools."""
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


class Block(nn.Module):
    """Two convolutions with batch normalisation and a residual connection."""

    def __init__(self, n: int, m: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            *(nn.Conv2d(n, m, 3, stride, 1, bias=False), nn.BatchNorm2d(m), nn.ReLU()),
            *(nn.Conv2d(m, m, 3, 1, 1, bias=False), nn.BatchNorm2d(m)),
        )
        self.outer = nn.Identity() if stride == 1 else nn.Conv2d(n, m, 1, stride)

    def forward(self, x: Any) -> Any:
        """Apply the block."""
        return torch.relu(self.inner(x) + self.outer(x))


def resnet() -> nn.Module:
    """ResNet-8: blocks of 16, 32 and 64 channels."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)),
        *(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10)),
    )


def load_or_train(
    name: str, module: nn.Module, images: AnyArray, kinds: AnyArray, epochs: int
) -> None:
    """Read stored weights, or train a network with Adam and store them."""
    folder = os.environ.get("HARDMAX_TRAINED")
    path = Path(folder) / f"{name}.pt" if folder else None
    if path is not None and path.exists():
        module.load_state_dict(torch.load(path))
    else:
        optimiser = torch.optim.Adam(module.parameters(), 2e-3)
        x, y = torch.from_numpy(images), torch.from_numpy(kinds)
        for _ in range(epochs):
            for batch in torch.randperm(len(x)).split(_BATCH):
                loss = nn.functional.cross_entropy(module(x[batch]), y[batch])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        if path is not None:
            torch.save(module.state_dict(), path)
    module.eval()


def tables() -> Iterator[Table]:
    """Yield the cost of segments and planes through images, before and after training."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rows: list[tuple[object, ...]] = []
    share = []
    n_sizes = 2 if "--full" in sys.argv else 1
    for name, module, side, n_channels, epochs, sizes in (
        ("LeNet", lenet(), 28, 1, 4, (0.3, 1.0)),
        ("ResNet-8", resnet(), 32, 3, 2, (0.01, 0.03)),
    ):
        fresh = from_torch(module.eval(), input_shape=(n_channels, side, side))
        module.train()
        load_or_train(name, module, *draw_shapes(_N_IMAGES, side, n_channels, 1), epochs)
        images, kinds = draw_shapes(1000, side, n_channels, 2)
        with torch.no_grad():
            right = module(torch.from_numpy(images)).argmax(1).numpy() == kinds
        share.append(f"{right.mean():.1%} ({name})")
        chosen = [int(np.flatnonzero(kinds == kind)[0]) for kind in (0, 3, 6)]
        pictures = images[chosen].reshape(3, -1).astype(np.float64)
        net = from_torch(module, input_shape=(n_channels, side, side))
        domains = {"segment": Segment(pictures[0], pictures[1])}
        domains |= {
            f"{s:g} of a triangle": triangle_through_images(pictures, s) for s in sizes[:n_sizes]
        }
        for domain, where in domains.items():
            for word, which in (("before training", fresh), ("trained", net)):
                rows.append((f"{name}, {word}", domain, *measure_search(which, where)))
    yield Table(
        "Trained networks of any shape",
        COLUMNS,
        rows,
        f"""Images of ten kinds of shapes on a black background. The networks have PyTorch's initial
        weights, or weights trained with Adam, with an accuracy on new images of
        {" and ".join(share)}. The domains are segments between images of different kinds, and parts
        of the plane through three such images. Where images are black or have a single colour,
        windows are multiples of each other, and ties are decided exactly.""",
    )
