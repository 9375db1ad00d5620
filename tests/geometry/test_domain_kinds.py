"""The table of kinds of domains, and every place that lists them."""

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import hardmax as hm
from hardmax.cli.main import app
from hardmax.errors import ArgumentError, DtypeError
from hardmax.geometry.domain_protocol import CheckedDomain, ReadDomain, check_domain
from hardmax.geometry.domain_text import KINDS, domain_text, list_kinds, parse_domain
from hardmax.regions.charted_domains import as_domain, charted

ROOT = Path(__file__).parents[2]
PAIRS = [(kind, example) for kind in KINDS for example in kind.examples]
CLASSES = {kind.cls.__name__ for kind in KINDS}


def rows_and_chart(domain):
    """Everything that a domain is, exactly."""
    read = charted(domain, domain.ambient_dim)
    forms = read.coordinates
    return read.exact_rows.tolist(), forms.matrix.tolist(), forms.exponent, forms.denominator


def all_subclasses(cls):
    return {cls}.union(*map(all_subclasses, cls.__subclasses__()))


def test_the_table_has_every_domain_of_the_package_once():
    public = {cls.__name__ for cls in all_subclasses(CheckedDomain) if hasattr(hm, cls.__name__)}
    assert public == CLASSES
    assert len({kind.word for kind in KINDS}) == len(KINDS)
    writers = [kind.cls for kind in KINDS if kind.write]
    assert len(writers) == len(set(writers)) == len(CLASSES)


@pytest.mark.parametrize(("kind", "example"), PAIRS, ids=lambda part: getattr(part, "text", None))
def test_an_example_is_the_domain_of_its_python_expression_and_comes_back(kind, example):
    assert example.text.startswith(f"{kind.word}:")
    parsed, built = parse_domain(example.text), eval(example.python, {"hm": hm})
    assert type(parsed) is type(built) is kind.cls
    assert rows_and_chart(parsed) == rows_and_chart(built)
    again = parse_domain(domain_text(parsed))
    assert type(again) is kind.cls
    assert rows_and_chart(again) == rows_and_chart(parsed)
    stored = domain_text(as_domain(charted(parsed, parsed.ambient_dim)))
    assert rows_and_chart(parse_domain(stored)) == rows_and_chart(parsed)
    assert check_domain(parsed) is parsed


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.word)
def test_a_kind_has_one_interface(kind):
    for text, _, _ in kind.examples:
        domain = parse_domain(text)
        assert domain.exact_rows.shape[1:] == (domain.dim + 1,)
        assert all(type(x) is int for x in domain.exact_rows.ravel().tolist())
        if domain.chart is None:
            assert domain.dim == domain.ambient_dim
        else:
            weight, bias = domain.chart
            assert (weight.shape, bias.shape) == (
                (domain.dim, domain.ambient_dim),
                (domain.ambient_dim,),
            )
        # The general reader of objects of any class agrees with the class.
        read = ReadDomain.of(domain, "domain")
        assert rows_and_chart(read) == rows_and_chart(domain)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.word)
def test_a_slice_takes_the_kinds_that_can_have_its_coordinates(kind):
    domain = parse_domain(kind.examples[0].text)
    text = f"slice:0^5,1;{';'.join('0,' * i + '1' + ',0' * (5 - i) for i in range(domain.dim))}"
    if kind.fits_slice:
        inner = parse_domain(f"{text}|{kind.examples[0].text}").box
        assert rows_and_chart(inner) == rows_and_chart(domain)
        return
    with pytest.raises(ArgumentError, match="the coordinates of a slice must lie in a box"):
        parse_domain(f"{text}|{kind.examples[0].text}")
    if domain.chart is not None:
        with pytest.raises(DtypeError, match="`box` must be full-dimensional"):
            hm.Slice(np.zeros(6), np.eye(domain.dim, 6), domain)


def test_the_help_of_the_command_lists_every_example():
    shown = CliRunner().invoke(app, ["regions", "--help"]).stdout
    for line in list_kinds():
        assert f"\n    {line}\n" in shown
    for _, example in PAIRS:
        assert example.text in shown
        assert example.meaning in shown
    assert "{domains}" not in shown


def test_the_page_on_files_lists_every_example():
    page = (ROOT / "docs/files.md").read_text().replace("\\|", "|")
    table = page[page.index("## Domains as text") :]
    for _, example in PAIRS:
        row = next(line for line in table.splitlines() if line.startswith(f"| `{example.text}` |"))
        assert row.endswith(f"| `{example.python}` |")


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("docs/files.md", "| `domain`, `box` |"),
        ("docs/symbols.md", "| domain | the set in which"),
        ("README.md", "How many cells, regions and affine maps"),
        ("CHANGELOG.md", "- Search lines"),
    ],
)
def test_the_pages_name_every_class(place, text):
    line = next(line for line in (ROOT / place).read_text().splitlines() if text in line)
    if place.startswith("docs"):
        assert set(re.findall(r"`([A-Z]\w+)`", line)) >= CLASSES
        return
    plural = {"Box": "boxes", "WholeSpace": "all of space", "Simplex": "simplices"}
    left_out = {"Segment", "Ray"} if place == "README.md" else {"Ray"}
    for name in CLASSES - left_out:
        assert plural.get(name, f"{name.lower()}s") in line.lower()


def test_the_documentation_of_the_arguments_names_every_class_and_every_word():
    assert set(re.findall(r"`([A-Z]\w+)`", hm.typing.DomainLike.__doc__)) >= CLASSES
    assert set(hm.__doc__.replace(",", " ").split()) >= CLASSES
    words = re.findall(r"`(\w+)`", hm.parse_domain.__doc__)
    assert set(words) >= {kind.word for kind in KINDS}


def test_the_messages_name_every_kind():
    net = hm.ReluNetwork([np.ones((2, 3)), np.ones((3, 1))])
    with pytest.raises(DtypeError) as refused:
        hm.enumerate_regions(net, 3)
    assert all(name in str(refused.value) for name in CLASSES)
    with pytest.raises(ArgumentError) as refused:
        parse_domain("cube:1")
    assert all(f" {kind.word}," in str(refused.value) for kind in KINDS)


def test_the_reader_of_plain_data_of_the_page_knows_every_planar_domain():
    from hardmax.explorer.plain_data import domain_from_data, domain_to_data

    for text in ("box:-1,1^2", "space:2", *(example.text for _, example in PAIRS)):
        domain = parse_domain(text)
        if domain.dim == 2:
            again = domain_from_data(domain_to_data(domain, domain.ambient_dim))
            assert rows_and_chart(again) == rows_and_chart(domain)
