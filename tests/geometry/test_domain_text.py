"""Domains as text: what is written is read back exactly, and mistakes are quoted."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, DtypeError, HardmaxError
from hardmax.geometry.domain_text import EXAMPLES, box_of_rows, domain_text, parse_domain
from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
from hardmax.geometry.polytopes import Polytope
from hardmax.regions.charted_domains import as_domain, charted

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def shape(domain):
    """Everything a domain is, exactly."""
    where = charted(domain, domain.ambient_dim)
    forms = where.coordinates
    return where.exact_rows.tolist(), forms.matrix.tolist(), forms.exponent, forms.denominator


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_is_read_and_written_back(text):
    again = domain_text(parse_domain(text))
    assert domain_text(parse_domain(again)) == again
    assert shape(parse_domain(again)) == shape(parse_domain(text))


def test_the_texts_mean_what_the_table_says():
    same = [
        ("box:-1,1^2", Box([-1, -1], [1, 1])),
        ("box: -1 , 1 ; 0,5", Box([-1, 0], [1, 5])),
        ("BOX:-1,1^2;.5,1e3", Box([-1, -1, 0.5], [1, 1, 1000])),
        ("space:3", WholeSpace(3)),
        ("segment:0,0;1,2", Segment([0, 0], [1, 2])),
        ("segment:0^3;1^2,2", Segment([0, 0, 0], [1, 1, 2])),
        ("line:0,0;1,2", Line([0, 0], [1, 2])),
        ("ray:0,0;1,2", Ray([0, 0], [1, 2])),
        ("hull:0,0;1,0;0,1", Polytope.from_points([[0, 0], [1, 0], [0, 1]])),
        ("polytope:0.1,0<=1;0,1<=1;-1,-1<=0", Polytope([[0.1, 0], [0, 1], [-1, -1]], [1, 1, 0])),
        ("polytope:1^2<=0.5", Polytope([[1, 1]], [0.5])),
        ("slice:0,0,1;1,0,0;0,1,0", Slice([0, 0, 1], [[1, 0, 0], [0, 1, 0]])),
        ("slice:0,0,1;1,1,0|box:0,2", Slice([0, 0, 1], [[1, 1, 0]], Box([0], [2]))),
        ("slice:0,0,1;1,1,0|polytope:1<=2", Slice([0, 0, 1], [[1, 1, 0]], Polytope([[1]], [2]))),
    ]
    for text, domain in same:
        assert shape(parse_domain(text)) == shape(domain), text


@given(st.lists(st.tuples(FLOATS, FLOATS).filter(lambda pair: pair[0] < pair[1]), min_size=1))
def test_boxes_come_back_bit_for_bit(pairs):
    box = Box(*np.array(pairs).T)
    again = parse_domain(domain_text(box))
    assert again.low.tobytes() == box.low.tobytes()
    assert again.high.tobytes() == box.high.tobytes()


@given(st.integers(1, 4), st.data())
def test_segments_lines_and_slices_come_back_bit_for_bit(dim, data):
    points = data.draw(st.lists(FLOATS, min_size=2 * dim, max_size=2 * dim))
    start, end = np.array(points).reshape(2, dim)
    if np.array_equal(start, end) or not end.any():
        return
    for domain in (Segment(start, end), Line(start, end), Ray(start, end), Slice(start, [end])):
        again = parse_domain(domain_text(domain))
        assert type(again) is type(domain)
        assert domain_text(again) == domain_text(domain)
        assert shape(again) == shape(domain)


def test_inequalities_of_any_length_come_back():
    rows = [(10**30, -1, 3), (-(2**9000) - 1, 5, 2**9000), (0, 1, 7)]
    again = parse_domain(domain_text(Polytope.from_rows(rows, 2)))
    assert again.rows.tolist() == [list(row) for row in rows]


@pytest.mark.parametrize(
    "domain",
    [
        Box([-1, 0.1], [1, 3]),
        WholeSpace(2),
        Segment([0.1, 0.2], [0.3, 1e300]),
        Line([0.1, 0.2], [0.3, -0.0]),
        Ray([0.1, 0.2], [0.3, 1.0]),
        Polytope([[1, 0.1], [-1, 0], [0, -1]], [1, 1, 1]),
        Polytope([[1, 0], [0, 1], [-1, 0], [0, -1]], [1, 1, 1, 1]),
        Slice([0.1, 0.2], [[1, 0], [0.1, 3]], Box([0, 0], [1, 2])),
        Slice([0.1, 0.2], [[1, 0]], Polytope([[3]], [1])),
        Slice([0.1, 0.2], [[1, 0]]),
    ],
    ids=lambda domain: type(domain).__name__,
)
def test_a_domain_the_engines_have_read_can_be_written_again(domain):
    read = charted(domain, 2)
    again = charted(parse_domain(domain_text(as_domain(read))), 2)
    assert again.exact_rows.tolist() == read.exact_rows.tolist()
    assert again.chart.weight.tobytes() == read.chart.weight.tobytes()
    assert again.chart.bias.tobytes() == read.chart.bias.tobytes()
    assert (again.ends is None, again.corners is None) == (read.ends is None, read.corners is None)


def test_rows_of_a_box_are_known_as_one():
    box = Box([-1, 0.1], [1, 3])
    assert domain_text(box_of_rows(charted(box, 2).exact_rows)) == "box:-1,1;0.1,3"
    rows = np.array([[3, 0, 1], [0, 1, 1], [-1, 0, 1], [0, -1, 1]], dtype=object)
    assert box_of_rows(rows) is None  # 1/3 is no float.
    assert box_of_rows(rows[1:]) is None
    rows[0] = [1, 0, 10**400]
    assert box_of_rows(rows) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "one of box, space"),
        ("box", "got 'box'"),
        ("cube:1", "got 'cube:1'"),
        (":", "got ':'"),
        ("box:", "a number was expected; got ''"),
        ("box:a,1", "got 'a'"),
        ("box:1", "two ends, low,high; got '1' with 1 number"),
        ("box:1,2,3", "got '1,2,3' with 3 numbers"),
        ("box:1,-1", "`low` must be below `high`"),
        ("box:-1,1^", "a count must be a positive integer; got ''"),
        ("box:-1,1^0", "got '0'"),
        ("box:-1,1^-2", "got '-2'"),
        ("box:-1,1^99999999", "at most 1048576 numbers"),
        ("box:-1,1^999999999999", "a count must be"),
        ("box:-1,1e999", "too large"),
        ("box:-1,inf", "got 'inf'"),
        ("box:-1,nan", "got 'nan'"),
        ("box:-1,1_0", "got '1_0'"),
        ("box:-1,٣", "got '٣'"),
        ("space:0", "a positive integer"),
        ("space:2.5", "got '2.5'"),
        ("segment:0,0", "two points, separated by a semicolon; got 1 part"),
        ("segment:0,0;1,1;2,2", "got 3 parts"),
        ("segment:0,0;1", "2 coordinates, like the first; got '1'"),
        ("segment:0,0;0,0", "`end` must differ"),
        ("line:0,0;0,0", "`direction` must not be zero"),
        ("polytope:1,0", "an inequality must have the form numbers<=number; got '1,0'"),
        ("polytope:1,0<=1;1<=1", "2 numbers on the left"),
        ("polytope:" + "9" * 5000 + "<=1", "hexadecimal"),
        ("slice:0,0", "one or more directions"),
        ("slice:0,0;1,0;2,0", "independent"),
        ("slice:0,0;1,0|segment:0;1", "box, space, hull, polytope or simplex"),
        ("slice:0,0;1,0|box:0,1^2", "the number of directions"),
        ("slice:0,0;1,0|" * 500 + "box:0,1", "box, space, hull, polytope or simplex"),
    ],
)
def test_a_mistake_is_quoted(text, reason):
    start = time.perf_counter()
    with pytest.raises(ArgumentError, match="`text` must be a domain") as caught:
        parse_domain(text)
    assert reason in str(caught.value)
    assert time.perf_counter() - start < 1.0


def test_only_text_is_read_and_only_domains_are_written():
    with pytest.raises(DtypeError, match="`text`"):
        parse_domain(3)
    with pytest.raises(DtypeError, match="`domain`"):
        domain_text(3)
    assert domain_text("box:-1,1;-1,1.0") == "box:-1,1^2"


@given(st.text(alphabet="boxslice:;,.|^<=-+e0123456789 ", max_size=40))
def test_any_text_is_read_or_refused(text):
    for head in ("", "box:", "segment:", "slice:", "polytope:"):
        try:
            domain = parse_domain(head + text)
        except HardmaxError:
            continue
        assert domain_text(domain)
