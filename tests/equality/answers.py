"""The answers of one model, the file that keeps those of all models, and their comparison."""

import csv
import time
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

import hardmax as hm
from hardmax.models import GraphNetwork
from tests.equality import questions
from tests.equality.models import draw

FILE = Path(__file__).parent / "answers.csv"
MOST_CELLS = 2_000
"""Models with more cells or pieces are left out when the file is written for the first time."""
MOST_SECONDS, MOST_SECONDS_OF_IMAGES = 0.05, 0.4
"""Models that need more CPU time are left out when the file is written for the first time."""

ALWAYS = ("dimension", "n_cells", "n_regions", "n_affine_maps", "signatures", "maps")
"""The questions that every model answers."""
OF_GRAPHS = ("dense", "pieces", "boundary")
"""The questions that every graph on a segment or in a plane answers."""
SOMETIMES = {
    "breakpoints": 2, "neighbours": 8, "certificate": 16, "volumes": 20, "located": 5, "local": 8,
    "levels": 10, "table": 12,
}  # fmt: skip
"""Further questions; one in so many models answers them, chosen by a hash of the name."""
SPARSER = 4
"""Of graphs, whose dense forms are slow, one in so many of these answers them."""
MOST_EXACT_CELLS = 100
"""Models with more cells are not asked further questions, whose exact answers would be slow."""
COLUMNS = ("name", *ALWAYS, *OF_GRAPHS, *SOMETIMES)


def questions_for(name: str, model: Any, part: Any) -> list[str]:
    """Return the names of the questions for a model and its partition."""
    names = [*ALWAYS]
    is_planar_graph = questions.is_planar_graph(part)
    if is_planar_graph:
        names += OF_GRAPHS
    if questions.n_rows(part) <= MOST_EXACT_CELLS:
        names += [q for q in SOMETIMES if _is_asked(name, q, model) and _fits(q, model, part)]
    return names


def _is_asked(name: str, question: str, model: Any) -> bool:
    """Return whether a model is among those that answer a further question."""
    period = SOMETIMES[question] * (SPARSER if isinstance(model, GraphNetwork) else 1)
    return crc32(f"{name} {question}".encode()) % period == 0


def _fits(question: str, model: Any, part: Any) -> bool:
    """Return whether a further question can be asked of the model in this dimension."""
    if question == "breakpoints":
        return bool(part.domain.dim == 1)
    if question == "volumes":
        return bool(part.domain.dim <= 3)
    has_local_cells = isinstance(model, GraphNetwork | hm.ReluNetwork | hm.MaxoutNetwork)
    return question != "local" or has_local_cells


def answer(name: str) -> dict[str, str]:
    """Return the answers of a model by question; an error is an answer too."""
    with np.errstate(all="ignore"):
        try:
            model, domain = draw(name)
            part = questions.explore(model, domain)
            cells = questions.Cells(model, domain, part)
        except Exception as error:
            return {"name": name, "dimension": _described(error)}
        row = {"name": name}
        for question in questions_for(name, model, part):
            try:
                row[question] = str(getattr(questions, question)(cells))
            except Exception as error:
                row[question] = _described(error)
    return row


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:80]


def answer_if_quick(name: str) -> dict[str, str] | None:
    """Return the answers of a model; None if it has many cells or the answers take long."""
    most_seconds = MOST_SECONDS_OF_IMAGES if name.startswith("graphimages") else MOST_SECONDS
    model, domain = draw(name)
    limits = {"max_cells": MOST_CELLS + 1, "max_seconds": most_seconds}
    part = questions.explore(model, domain, **limits)
    if not part.is_complete or questions.n_rows(part) > MOST_CELLS:
        return None
    began = time.process_time()
    row = answer(name)
    return row if time.process_time() - began < most_seconds else None


def read_answers(path: Path = FILE) -> dict[str, dict[str, str]]:
    """Return the kept answers by name, without empty ones."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = [{k: v for k, v in row.items() if v} for row in csv.DictReader(stream)]
    return {row["name"]: row for row in rows}


def write_answers(rows: list[dict[str, str]], path: Path = FILE) -> None:
    """Write the answers of all models, one line for each."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def differences(kept: dict[str, str], found: dict[str, str]) -> list[str]:
    """Return one line for each answer that differs."""
    names = [name for name in COLUMNS if kept.get(name, "") != found.get(name, "")]
    return [f"{name} was {kept.get(name, '')!r}, is {found.get(name, '')!r}" for name in names]


def report(name: str, found: list[str]) -> str:
    """Return the differences of a model, and the command that asks it again."""
    return "\n".join([f"{name}: {'; '.join(found)}", f"  python -m tests.equality --only {name}"])
