"""Train a small classifier with PyTorch, and write its weights next to this file.

    python examples/train_spirals.py [STEPS]

Two interleaved spirals, a network 2 -> 16 -> 16 -> 2 with ReLU, a few seconds on one core.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

torch.manual_seed(0)
rng = np.random.default_rng(0)
angle = rng.uniform(0.5, 2 * np.pi, size=(2, 400))
radius = angle / (2 * np.pi)
side = np.array([[1.0], [-1.0]])
spirals = side[..., None] * radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
inputs = torch.tensor(spirals.reshape(-1, 2) + rng.normal(scale=0.02, size=(800, 2)))
labels = torch.tensor([0] * 400 + [1] * 400)

model = torch.nn.Sequential(
    torch.nn.Linear(2, 16),
    torch.nn.ReLU(),
    torch.nn.Linear(16, 16),
    torch.nn.ReLU(),
    torch.nn.Linear(16, 2),
).double()
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(int(sys.argv[1]) if sys.argv[1:] else 2000):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimiser.step()

right = (model(inputs).argmax(dim=1) == labels).double().mean().item()
print(f"right on {right:.1%} of the points")
weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
save_file(weights, Path(__file__).with_name("spirals.safetensors"))
