"""The report: one file with everything in it, and nothing that runs or loads."""

from html.parser import HTMLParser

import pytest

from hardmax._ground.records import Record
from hardmax.errors import ArgumentError
from hardmax.papers.pages import Ruling, image, ledger
from hardmax.papers.report_page import Chapter, write_report

VOID = {"meta", "img", "br"}


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
    assert set(page.ids) == {"first", "second", "ledger", "claim-V.2"}
    assert {link.removeprefix("#") for link in page.links} == set(page.ids)


def test_nothing_runs_and_nothing_is_loaded(page):
    assert not {"script", "link", "iframe", "i", "b"} & set(page.tags)
    assert all(image.startswith("data:image/") for image in page.images)


def test_a_heavy_drawing_goes_in_as_pixels(page):
    assert [image.partition(";")[0] for image in page.images] == [
        "data:image/svg+xml",
        "data:image/png",
    ]


def test_the_caption_has_parameters_time_and_verdict(page):
    text = "".join(page.words)
    assert "n_keys = (1, 2, 3); scale = 0.5 · 1.2 s · V.2: false" in text
    assert "A <b>bold</b> claim" in text
    assert "1 claims, each" in text
    assert "the first 40 of 50 rows" in text


def test_a_report_of_nothing_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="`records` must hold at least one"):
        write_report(tmp_path, [], [])


@pytest.mark.parametrize(("width", "wide"), [(900, True), (400, False)])
def test_only_wide_figures_scroll_on_a_phone(width, wide):
    svg = f'<svg width="{width}pt" viewBox="0 0 {width}.5 300.25"/>'.encode()
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4) + (300).to_bytes(4)
    assert ('class="wide"' in image(svg, "svg+xml", "")) == wide
    assert ('class="wide"' in image(png, "png", "")) == wide
    assert "wide" not in image(b"", "png", "") + image(b"<svg/>", "svg+xml", "")


def test_verdicts_are_counted_in_one_order():
    rulings = [Ruling("a", "", "", word, "") for word in ("false", "holds", "odd", "false")]
    assert "1 holds, 2 false, 1 odd." in ledger(rulings)
