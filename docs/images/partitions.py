"""Draws the first picture of the README and the site, on light and dark paper, wide and narrow."""

from pathlib import Path

import numpy as np

import hardmax as hm
from hardmax.papers.experiments.random_models import random_transformer
from hardmax.plotting.style import create_row, off_screen, stack_panels

BOX = hm.Box([-3, -3], [3, 3])


def draw(folder: Path) -> None:
    """Write the pictures to a folder."""
    for theme, end in (("light", ""), ("dark", "-dark")):
        with off_screen(theme):
            figure, axes = create_row(3)
            for depth, ax in enumerate(axes, start=1):
                model = random_transformer(np.random.default_rng(8), 6, 2, 4, depth)
                part = hm.enumerate_regions(model, BOX)
                hm.plot(part, ax, color="cell")
                ax.set(xticks=(), yticks=(), xlabel="", ylabel="")
                ax.spines[:].set_visible(False)
                ax.set_title(f"{depth} block{'s' * (depth > 1)}, {part.n_cells} cells")
            figure.savefig(folder / f"partitions{end}.png", dpi=130)
            stack_panels(figure)
            figure.savefig(folder / f"partitions-narrow{end}.png", dpi=130)


if __name__ == "__main__":
    draw(Path(__file__).parent)
