r"""Training of the small transformer that is included in the package, in NumPy.

The model sorts letters: it continues `shrew|` with `ehrsw`. It is a causal transformer with the
layers of GPT-2, ReLU instead of GELU, and heads of size 2, so that the power diagram of each head
can be drawn directly. The seed fixes the data and the initial weights. Another BLAS may round
differently, so the stored weights come from one run of this command:

    python -m hardmax.models.checkpoints.sorter.training
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardmax.typing import AnyArray, IntArray

LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = (*LETTERS, "|")
_END = len(LETTERS)
_EPSILON = 1e-5
Weights = dict[str, AnyArray]


@dataclass(frozen=True)
class SorterConfig:
    """The dimensions of the transformer, and the parameters of its training.

    Attributes:
        width: The width $d$ of the layers.
        n_heads: The number of heads in each layer.
        n_layers: The number of layers.
        n_units: The number of units in the feed-forward part of each layer.
        most_letters: The length of the longest word.
        n_steps: The number of steps of Adam.
        batch: The number of words per step.
        rate: The largest learning rate; it decays to 0 along a cosine.
        seed: The seed of the initial weights and the words.
    """

    width: int = 32
    n_heads: int = 16
    n_layers: int = 2
    n_units: int = 64
    most_letters: int = 12
    n_steps: int = 6000
    batch: int = 128
    rate: float = 4e-3
    seed: int = 0


def draw_weights(sizes: SorterConfig, rng: np.random.Generator) -> Weights:
    """Draw initial weights, with the names used by GPT-2."""
    d, e = sizes.width, sizes.n_units

    def normal(*shape: int, scale: float = 0.02) -> AnyArray:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    weights = {
        "wte.weight": normal(len(VOCABULARY), d, scale=0.5),
        "wpe.weight": normal(2 * sizes.most_letters + 1, d, scale=0.5),
        "ln_f.weight": np.ones(d, np.float32),
        "ln_f.bias": np.zeros(d, np.float32),
        "lm_head.weight": normal(len(VOCABULARY), d, scale=d**-0.5),
    }
    for i in range(sizes.n_layers):
        shapes = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, e)}
        for name, shape in {**shapes, "mlp.c_proj": (e, d)}.items():
            weights[f"h.{i}.{name}.weight"] = normal(*shape, scale=shape[0] ** -0.5)
            weights[f"h.{i}.{name}.bias"] = np.zeros(shape[1], np.float32)
        for name in ("ln_1", "ln_2"):
            weights[f"h.{i}.{name}.weight"] = np.ones(d, np.float32)
            weights[f"h.{i}.{name}.bias"] = np.zeros(d, np.float32)
    return weights


def iter_batches(sizes: SorterConfig, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield batches of words of equal length: letters, the bar, and the sorted letters."""
    while True:
        n = int(rng.integers(2, sizes.most_letters + 1))
        letters = rng.integers(0, _END, (sizes.batch, n))
        bar = np.full((sizes.batch, 1), _END)
        yield np.hstack([letters, bar, np.sort(letters, axis=1)])


def compute_loss_and_gradient(
    weights: Weights, tokens: IntArray, sizes: SorterConfig
) -> tuple[float, float, Weights]:
    """Return the mean loss on the sorted letters, the share of correct ones, and the gradient."""
    batch, length = tokens.shape
    inputs, n_asked = tokens[:, :-1], length // 2
    x = weights["wte.weight"][inputs] + weights["wpe.weight"][: length - 1]
    kept = []
    for i in range(sizes.n_layers):
        x, memory = _block_forward(weights, f"h.{i}.", x, sizes.n_heads)
        kept.append(memory)
    y, normed = _norm_forward(weights, "ln_f", x)
    asked = y[:, -n_asked:]
    scores = asked @ weights["lm_head.weight"].T
    scores -= scores.max(axis=-1, keepdims=True)
    shares = np.exp(scores)
    shares /= shares.sum(axis=-1, keepdims=True)
    wanted = tokens[:, -n_asked:, None]
    right = float((shares.argmax(axis=-1) == wanted[..., 0]).mean())
    loss = -float(np.log(np.take_along_axis(shares, wanted, -1) + 1e-9).mean())

    gradient = {name: np.zeros_like(array) for name, array in weights.items()}
    np.put_along_axis(shares, wanted, np.take_along_axis(shares, wanted, -1) - 1.0, -1)
    shares /= batch * n_asked
    gradient["lm_head.weight"] = np.einsum("bnt,bnd->td", shares, asked)
    back = np.zeros_like(y)
    back[:, -n_asked:] = shares @ weights["lm_head.weight"]
    back = _norm_backward(weights, gradient, "ln_f", back, normed)
    for i in reversed(range(sizes.n_layers)):
        back = _block_backward(weights, gradient, f"h.{i}.", back, kept[i], sizes.n_heads)
    np.add.at(gradient["wte.weight"], inputs, back)
    gradient["wpe.weight"][: length - 1] = back.sum(axis=0)
    return loss, right, gradient


def train(sizes: SorterConfig) -> tuple[Weights, float]:
    """Train from the seed; return the weights and the final share of correct letters."""
    rng = np.random.default_rng(sizes.seed)
    weights = draw_weights(sizes, rng)
    data = iter_batches(sizes, rng)
    first = {name: np.zeros_like(array) for name, array in weights.items()}
    second = {name: np.zeros_like(array) for name, array in weights.items()}
    mean_right = 0.0
    for step in range(1, sizes.n_steps + 1):
        loss, right, gradient = compute_loss_and_gradient(weights, next(data), sizes)
        mean_right += (right - mean_right) * max(0.01, 1 / step)
        rate = sizes.rate * min(1.0, step / 200) * (1 + np.cos(np.pi * step / sizes.n_steps)) / 2
        for name, array in weights.items():
            first[name] += 0.1 * (gradient[name] - first[name])
            second[name] += 0.01 * (gradient[name] ** 2 - second[name])
            size = np.sqrt(second[name] / (1 - 0.99**step)) + 1e-8
            array -= (rate * (first[name] / (1 - 0.9**step)) / size).astype(np.float32)
        if step % 500 == 0:
            print(f"step {step}: loss {loss:.4f}, correct {mean_right:.4f}", flush=True)
    return weights, mean_right


def _norm_forward(
    weights: Weights, name: str, x: AnyArray
) -> tuple[AnyArray, tuple[AnyArray, AnyArray]]:
    centred = x - x.mean(axis=-1, keepdims=True)
    size = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(_EPSILON))
    unit = centred / size
    return unit * weights[f"{name}.weight"] + weights[f"{name}.bias"], (unit, size)


def _norm_backward(
    weights: Weights,
    gradient: Weights,
    name: str,
    back: AnyArray,
    kept: tuple[AnyArray, AnyArray],
) -> AnyArray:
    unit, size = kept
    gradient[f"{name}.weight"] += (back * unit).sum(axis=(0, 1))
    gradient[f"{name}.bias"] += back.sum(axis=(0, 1))
    inner = back * weights[f"{name}.weight"]
    along = (inner * unit).mean(axis=-1, keepdims=True)
    return np.asarray((inner - inner.mean(axis=-1, keepdims=True) - unit * along) / size)


def _linear_forward(weights: Weights, name: str, x: AnyArray) -> AnyArray:
    return np.asarray(x @ weights[f"{name}.weight"] + weights[f"{name}.bias"])


def _linear_backward(
    weights: Weights, gradient: Weights, name: str, back: AnyArray, x: AnyArray
) -> AnyArray:
    flat = back.reshape(-1, back.shape[-1])
    gradient[f"{name}.weight"] += x.reshape(-1, x.shape[-1]).T @ flat
    gradient[f"{name}.bias"] += flat.sum(axis=0)
    return np.asarray(back @ weights[f"{name}.weight"].T)


def _block_forward(
    weights: Weights, at: str, x: AnyArray, n_heads: int
) -> tuple[AnyArray, tuple[AnyArray, ...]]:
    """Return the output of one layer, and the values that its gradient needs."""
    a, norm_a = _norm_forward(weights, f"{at}ln_1", x)
    query, key, value = (
        part.reshape(*x.shape[:2], n_heads, -1).transpose(0, 2, 1, 3)
        for part in np.split(_linear_forward(weights, f"{at}attn.c_attn", a), 3, axis=-1)
    )
    scores = query @ key.swapaxes(-1, -2) / np.float32(np.sqrt(key.shape[-1]))
    scores += np.triu(np.full(scores.shape[-2:], -1e9, np.float32), 1)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    mixed = (shares @ value).transpose(0, 2, 1, 3).reshape(x.shape)
    u = x + _linear_forward(weights, f"{at}attn.c_proj", mixed)
    b, norm_b = _norm_forward(weights, f"{at}ln_2", u)
    active = np.maximum(_linear_forward(weights, f"{at}mlp.c_fc", b), 0)
    z = u + _linear_forward(weights, f"{at}mlp.c_proj", active)
    return z, (a, *norm_a, query, key, value, shares, mixed, b, *norm_b, active)


def _block_backward(
    weights: Weights,
    gradient: Weights,
    at: str,
    back: AnyArray,
    kept: tuple[AnyArray, ...],
    n_heads: int,
) -> AnyArray:
    a, unit_a, size_a, query, key, value, shares, mixed, b, unit_b, size_b, active = kept
    inner = _linear_backward(weights, gradient, f"{at}mlp.c_proj", back, active) * (active > 0)
    inner = _linear_backward(weights, gradient, f"{at}mlp.c_fc", inner, b)
    back = back + _norm_backward(weights, gradient, f"{at}ln_2", inner, (unit_b, size_b))
    inner = _linear_backward(weights, gradient, f"{at}attn.c_proj", back, mixed)
    inner = inner.reshape(*inner.shape[:2], n_heads, -1).transpose(0, 2, 1, 3)
    by_share = inner @ value.swapaxes(-1, -2)
    by_score = shares * (by_share - (shares * by_share).sum(axis=-1, keepdims=True))
    by_score /= np.float32(np.sqrt(key.shape[-1]))
    parts = (by_score @ key, by_score.swapaxes(-1, -2) @ query, shares.swapaxes(-1, -2) @ inner)
    joint = np.concatenate(
        [part.transpose(0, 2, 1, 3).reshape(*back.shape) for part in parts], axis=-1
    )
    inner = _linear_backward(weights, gradient, f"{at}attn.c_attn", joint, a)
    return np.asarray(
        back + _norm_backward(weights, gradient, f"{at}ln_1", inner, (unit_a, size_a))
    )


def main() -> None:
    """Train; write the weights, the configuration and the vocabulary to the folder of this file."""
    from safetensors.numpy import save_file

    sizes, folder = SorterConfig(), Path(__file__).parent
    weights, right = train(sizes)
    print(f"{right:.2%} of the letters are correct")
    save_file(weights, folder / "model.safetensors")
    config = {
        "model_type": "gpt2",
        "n_head": sizes.n_heads,
        "n_layer": sizes.n_layers,
        "activation_function": "relu",
        "layer_norm_epsilon": _EPSILON,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")


if __name__ == "__main__":
    main()
