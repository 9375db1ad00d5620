"""The report: a single file without scripts or external resources."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hardmax._ground.records import Record
from hardmax.errors import ArgumentError
from hardmax.papers.findings import BIBLIOGRAPHY, FINDINGS
from hardmax.papers.ledger import find_claims
from hardmax.papers.pages import Ruling, embed_figure, embed_image, ledger_html
from hardmax.papers.registry import experiment_titles
from hardmax.papers.report_page import Chapter, write_report

VOID = {"meta", "img", "br", "source", "mspace"}


class Page(HTMLParser):
    """Collects ids, links and tags, and checks that every tag that opens is closed."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.tags, self.images, self.open, self.words = [], [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        for found, name in ((self.ids, "id"), (self.links, "href"), (self.images, "src")):
            found += [attributes[name]] if name in attributes else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def record(name, **results):
    kept = {"title": f"Title of {name}", "summary": "it is so.", "claimed": "", "claims": []}
    return Record(name, {"n_keys": (1, 2, 3), "scale": 0.5}, {**kept, **results}, seconds=1.25)


@pytest.fixture
def page(tmp_path):
    (tmp_path / "first.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (tmp_path / "second.svg").write_text(" " * 500_000)
    (tmp_path / "second.png").write_bytes(b"\x89PNG")
    path = write_report(
        tmp_path,
        [record("first", claims=["V.2", "X.1"], claimed="a <b>bold</b> claim"), record("second")],
        [Chapter("Figures", ("first", "absent")), Chapter("More", ("second",)), Chapter("No", ())],
        [Ruling("V.2", "Theorem V.2", "it is & always was", "false", "because 92 < 216", "92")],
        {"first_counts": (["n_cells", "name"], [(k, "<i>") for k in range(50)])},
    )
    return Page(path.read_text())


def test_links_lead_to_places_on_the_page(page):
    assert len(set(page.ids)) == len(page.ids)
    works = {f"work-{key}" for key in BIBLIOGRAPHY}
    sections = {"findings", "outcomes", "ledger", "works"}
    assert set(page.ids) == {"first", "second", "claim-V.2", *sections, *works}
    places = {link.removeprefix("#") for link in page.links if link.startswith("#")}
    assert {"first", "second", "ledger", "claim-V.2", "work-SL26", "work-GYZ26"} <= places
    assert places <= set(page.ids)


def test_both_papers_are_linked(page):
    outside = {link for link in page.links if not link.startswith("#")}
    assert outside == {BIBLIOGRAPHY[key].address for key in ("SL26", "GYZ26")}


def test_nothing_runs_and_nothing_is_loaded(page):
    assert not {"script", "link", "iframe", "i", "b"} & set(page.tags)
    assert all(embed_image.startswith("data:image/") for embed_image in page.images)


def test_a_heavy_drawing_goes_in_as_pixels(page):
    assert [embed_image.partition(";")[0] for embed_image in page.images] == [
        "data:image/svg+xml",
        "data:image/png",
    ]


def test_a_result_has_its_verdict_its_settings_and_its_time(page):
    text = "".join(page.words)
    assert "number of keys (1, 2, 3); scale 0.5 · 1.2 s" in text
    assert text.count("V.2: false") == 2
    assert "A <b>bold</b> claim" in text
    assert "1 claim, each" in text
    assert "the first 40 of 50 rows" in text


def test_a_report_of_nothing_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="`records` must hold at least one"):
        write_report(tmp_path, [], [])


@pytest.mark.parametrize(("width", "wide"), [(900, True), (400, False)])
def test_only_wide_figures_scroll_on_a_phone(width, wide):
    svg = f'<svg width="{width}pt" viewBox="0 0 {width}.5 300.25"/>'.encode()
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + (300).to_bytes(4)
    assert ('class="wide"' in embed_image(svg, "svg+xml", "")) == wide
    assert ('class="wide"' in embed_image(png, "png", "")) == wide
    assert "wide" not in embed_image(b"", "png", "") + embed_image(b"<svg/>", "svg+xml", "")


def test_a_narrow_page_shows_stacked_panels(tmp_path):
    svg = '<svg width="900pt" viewBox="0 0 900.5 300.25"/>'
    (tmp_path / "name.svg").write_text(svg)
    assert embed_figure(tmp_path / "name", "").startswith('<img class="wide"')
    (tmp_path / "name-narrow.svg").write_text(svg)
    shown = embed_figure(tmp_path / "name", "")
    assert shown.startswith('<picture><source media="(max-width: 40rem)" srcset="data:image/svg')
    assert "wide" not in shown.partition("<img")[2].partition("src")[0]


def test_headlines_name_claims_and_results_that_there_are():
    names = experiment_titles()
    for finding in FINDINGS:
        assert all(find_claims(claim) for claim in finding.claims)
        assert finding.experiment in names or not finding.experiment


def test_works_are_those_of_the_bibliography():
    text = (Path(__file__).parents[2] / "docs" / "references.bib").read_text(encoding="utf-8")
    for key, work in BIBLIOGRAPHY.items():
        (entry,) = (line for line in text.splitlines() if f"{{{key}," in line)
        assert work.title in re.sub(r"[{}]", "", entry)
        assert work.address.rpartition("/")[2] in entry


def test_verdicts_are_counted_in_one_order():
    rulings = [Ruling("a", "", "", word, "") for word in ("false", "holds", "odd", "false")]
    assert "1 holds, 2 false, 1 odd." in ledger_html(rulings)
