"""A tenth of the models of the safety net; `python -m tests.equality` compares all."""

from collections import Counter

import pytest

from tests.equality import questions
from tests.equality.answers import (
    ALWAYS,
    OF_GRAPHS,
    SOMETIMES,
    answer,
    differences,
    read_answers,
    report,
)
from tests.equality.models import FAMILIES
from tests.sweeps import TIMES

KEPT = read_answers()
N_PARTS = 10
CHOSEN = [name for i, name in enumerate(KEPT) if i % N_PARTS < TIMES]


@pytest.mark.parametrize("part", range(N_PARTS))
def test_answers_are_those_kept_in_git(part):
    different = {name: differences(KEPT[name], answer(name)) for name in CHOSEN[part::N_PARTS]}
    reports = [report(name, found) for name, found in different.items() if found]
    hint = (
        "If an error was corrected, write the file again: python -m tests.equality --write --force"
    )
    assert not reports, "\n".join([f"{len(reports)} models answer differently:", *reports, hint])


def test_the_net_has_models_of_all_kinds():
    families = Counter(name.rsplit("-", 1)[0] for name in KEPT)
    assert set(families) == set(FAMILIES)
    assert len(KEPT) >= 5_000
    dimensions = Counter(row["dimension"] for row in KEPT.values())
    assert set(dimensions) == set("12345")
    for question in (*ALWAYS, *OF_GRAPHS, *SOMETIMES):
        assert sum(question in row for row in KEPT.values()) >= 30, question


def test_a_thousand_graphs_have_the_cells_of_their_dense_forms():
    assert sum(row.get("dense") == "equal" for row in KEPT.values()) >= 1_000
    assert not [name for name, row in KEPT.items() if row.get("dense", "equal") != "equal"]


def test_floats_are_within_their_error_bounds():
    assert not [name for name, row in KEPT.items() if "!" in "".join(row.values())]


def test_a_lost_cell_is_noticed(monkeypatch):
    name = "integers-6"
    whole = questions.Cells.__init__

    def without_the_last_cell(self, *arguments):
        whole(self, *arguments)
        self.rows = self.rows[:-1]

    monkeypatch.setattr(questions.Cells, "__init__", without_the_last_cell)
    found = " ".join(differences(KEPT[name], answer(name)))
    assert "n_cells was" in found
    assert "signatures was" in found
