"""Records are read back bit for bit, and damaged records are refused."""

import json
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax._ground import deadlines
from hardmax._ground.deadlines import TimeLimitReached, time_limit
from hardmax._ground.records import Record, fingerprint, library_versions, record
from hardmax.errors import ArgumentError, DtypeError, RecordFormatError

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


def bits(x):
    return struct.pack("<d", x)


@given(arrays(np.float64, st.tuples(st.integers(0, 3), st.integers(0, 3)), elements=ANY_FLOAT))
def test_float_arrays_come_back_bit_for_bit(array):
    array = np.where(np.isnan(array), np.nan, array)  # JSON has only one spelling of NaN.
    back = Record.from_json(Record("r", {}, {"a": array}).to_json()).results["a"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert [bits(x) for x in back.ravel()] == [bits(x) for x in array.ravel()]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | ANY_FLOAT | st.text() | st.fractions(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text().filter(lambda k: not k.startswith("$")), inner, max_size=3)
        ),
    )
)
def test_nested_results_come_back(value):
    original = Record("r", {"p": value}, {"v": value}, seed=7)
    assert Record.from_json(original.to_json()) == original


def test_big_integers_and_rationals_stay_exact():
    exact = np.array([2**200, Fraction(1, 3)], dtype=object)
    back = Record.from_json(Record("r", {}, {"exact": exact}).to_json()).results["exact"]
    assert back.tolist() == [2**200, Fraction(1, 3)]


@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "int8", "uint8", "bool"])
def test_array_dtypes_survive(dtype):
    array = np.array([[0, 1], [1, 0]], dtype=dtype)
    back = Record.from_json(Record("r", {}, {"a": array}).to_json()).results["a"]
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array)


def test_a_record_knows_its_surroundings():
    made = record(
        "sum", lambda: {"total": 3}, parameters={"n": 2}, seed=5, inputs=[np.ones(2), 1.0]
    )
    assert made.parameters == {"n": 2}
    assert made.seed == 5
    assert made.inputs == fingerprint([np.ones(2), 1.0])
    assert made.seconds > 0
    assert made.versions == library_versions()
    assert {"python", "hardmax", "numpy"} <= set(made.versions)


def test_a_record_survives_the_disk(tmp_path):
    made = Record("r", {}, {"x": [0.1, -0.0, float("inf")]})
    made.save(tmp_path / "r.json")
    assert Record.load(tmp_path / "r.json") == made
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


def test_a_failed_save_leaves_the_old_file(tmp_path):
    Record("old", {}, {}).save(tmp_path / "r.json")
    with pytest.raises(DtypeError, match=r"`results\.x`"):
        Record("new", {}, {"x": object()}).save(tmp_path / "r.json")
    assert Record.load(tmp_path / "r.json").name == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"format": "hardmax.record/1"}',
        '{"format": "hardmax.record/1", "name": NaN}',
        "[" * 100_000,
    ],
)
def test_what_is_no_record_is_refused(text):
    with pytest.raises(RecordFormatError, match="`text`"):
        Record.from_json(text)


@pytest.mark.parametrize(
    "broken",
    [
        {"$array": "float64", "shape": [3], "data": [1.0]},
        {"$array": "float64", "shape": [-1, -1], "data": [1.0]},
        {"$array": "complex128", "shape": [1], "data": [1.0]},
        {"$array": "int8", "shape": [1], "data": [1000]},
        {"$array": "float64", "shape": [1], "data": ["x"]},
        {"$array": "float64"},
        {"$array": "float64", "shape": [1], "data": [None]},
        {"$array": "float64", "shape": [1], "data": [True]},
        {"$array": "float64", "shape": [1], "data": [2**53 + 1]},
        {"$array": "float32", "shape": [1], "data": [0.1]},
        {"$array": "float32", "shape": [1], "data": [1e300]},
        {"$array": "int64", "shape": [1], "data": [0.5]},
        {"$array": "bool", "shape": [1], "data": [1]},
        {"$array": "float64", "shape": [1.0], "data": [1.0]},
        {"$array": "float64", "shape": "1", "data": [1.0]},
        {"$array": "float64", "shape": [1], "data": "1"},
        {"$array": ["float64"], "shape": [1], "data": [1.0]},
        {"$array": "float64", "shape": [1] * 100, "data": [1.0]},
        {"$array": "float64", "shape": [1], "data": [1.0], "more": 1},
        {"$fraction": "1e99999999"},
        {"$fraction": "0.5"},
        {"$fraction": 1},
        {"$fraction": ["1"]},
        {"$fraction": "0x" + "1" * 10**6},
        {"$integer": "1e5"},
        {"$integer": " 1"},
        {"$float": "1.0"},
        {"$float": 1.0},
        {"$float": "nan", "more": 1},
        {"$surprise": 1},
        {"$fraction": "1/0"},
        {"$float": "one"},
    ],
)
def test_broken_values_are_refused(broken):
    content = json.loads(Record("r", {}, {}).to_json())
    content["results"] = {"a": broken}
    with pytest.raises(RecordFormatError, match="`text`"):
        Record.from_json(json.dumps(content))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 5),
        ("name", None),
        ("name", {"$integer": "0x" + "f" * 10_000}),
        ("parameters", []),
        ("parameters", {"$array": "float64", "shape": [0], "data": []}),
        ("results", "none"),
        ("results", None),
        ("seed", 0.5),
        ("seed", True),
        ("inputs", None),
        ("seconds", "1"),
        ("seconds", None),
        ("seconds", 10**400),
        ("versions", {"numpy": 2}),
        ("versions", []),
    ],
)
def test_a_field_of_another_type_is_refused_by_name(field, value):
    content = json.loads(Record("r", {}, {}).to_json())
    content[field] = value
    with pytest.raises(RecordFormatError, match=f"as `{field}`"):
        Record.from_json(json.dumps(content))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, "a": 2}', "occurs twice"),
        ("[1e999]", "exceeds the range of float64"),
        ('["\\ud800"]', "unpaired surrogates"),
        ("[" * 600 + "]" * 600, "nested at most 100 levels deep"),
        ('{"a":' * 600 + "1" + "}" * 600, "nested at most 100 levels deep"),
    ],
)
def test_text_that_readers_would_stumble_over_is_refused(text, reason):
    with pytest.raises(RecordFormatError, match=reason):
        Record.from_json(text)


def nested(depth, inner):
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize("inner", [1, float("nan"), np.array([np.inf]), {}])
def test_nesting_that_is_written_can_be_read(inner):
    written = []
    for depth in range(90, 110):
        made = Record("r", {}, {"deep": nested(depth, inner)})
        try:
            text = made.to_json()
        except ArgumentError:
            continue
        assert Record.from_json(text) == made
        written.append(depth)
    assert 90 in written
    assert 100 not in written
    with pytest.raises(ArgumentError, match="nested at most"):
        Record("r", {}, {"deep": nested(100_000, inner)}).to_json()


def test_integers_and_fractions_of_any_length_come_back():
    """Python refuses to write or read more than 4300 decimal digits."""
    values = [10**5000, -(10**5000), Fraction(10**5000, 3), Fraction(-1, 7**4000), 2**8192 - 1]
    back = Record.from_json(Record("r", {}, {"v": values}).to_json()).results["v"]
    assert back == values
    with pytest.raises(ArgumentError, match=r"`results\.v` must hold fractions"):
        Record("r", {}, {"v": Fraction(1, 3**50_000)}).to_json()


def test_whole_numbers_in_an_array_of_floats_are_floats():
    """Other programs write 1.0 as 1."""
    content = json.loads(Record("r", {}, {}).to_json())
    del content["content"]
    content["format"] = "hardmax.record/1"
    content["results"] = {"a": {"$array": "float64", "shape": [2], "data": [1, -3]}}
    back = Record.from_json(json.dumps(content)).results["a"]
    assert (back.dtype, back.tolist()) == (np.float64, [1.0, -3.0])


def test_a_changed_number_is_noticed():
    text = Record("r", {"n": 3}, {"cells": 17}).to_json()
    assert Record.from_json(text).results == {"cells": 17}
    for changed in (
        text.replace("17", "18"),
        text.replace('"n": 3', '"n": 4'),
        text.replace('"n": 3', '"m": 3'),
        text.replace("record/2", "record/1"),
    ):
        with pytest.raises(RecordFormatError, match="its hash `content` does not match"):
            Record.from_json(changed)
    content = json.loads(text)
    del content["content"]
    with pytest.raises(RecordFormatError, match="is missing"):
        Record.from_json(json.dumps(content))
    assert Record.from_json(json.dumps(content | {"format": "hardmax.record/1"})).seed is None


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "r.json").write_text("[" * 600 + "]" * 600)
    with pytest.raises(RecordFormatError, match=r"r\.json: .*100 levels deep"):
        Record.load(tmp_path / "r.json")


def test_binary_files_are_refused(tmp_path):
    (tmp_path / "r.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordFormatError, match="`path`"):
        Record.load(tmp_path / "r.json")


def test_keys_that_would_be_misread_are_refused():
    with pytest.raises(ArgumentError, match="`results`"):
        Record("r", {}, {"$array": 1}).to_json()


@given(
    arrays(np.float64, 4, elements=st.floats(allow_nan=False)),
    st.integers(0, 3),
    st.integers(0, 63),
)
def test_flipping_one_bit_changes_the_fingerprint(array, index, bit):
    flipped = array.copy()
    flipped.view(np.uint64)[index] ^= np.uint64(1) << np.uint64(bit)
    assert fingerprint(array) != fingerprint(flipped)


def test_nesting_changes_the_fingerprint():
    values = [
        [[1], [2]],
        [[1, 2]],
        [1, 2],
        ["1", 2],
        [1.0, 2],
        [True, 2],
        {"a": [1, 2]},
        {"b": [1, 2]},
        np.array([1, 2]),
        np.array([1.0, 2.0]),
        np.array([1, 2], dtype=object),
        None,
        "",
        [],
        {},
    ]
    assert len({fingerprint(value) for value in values}) == len(values)


def test_byte_order_does_not_change_the_fingerprint():
    array = np.arange(3.0)
    assert fingerprint(array) == fingerprint(array.astype(">f8"))


def test_a_fingerprint_needs_plain_data():
    with pytest.raises(DtypeError, match="`inputs`"):
        fingerprint(object())


def test_hashing_an_array_can_be_abandoned(monkeypatch):
    array = np.zeros(10)
    wanted = fingerprint(array)
    monkeypatch.setattr(deadlines, "GRACE_S", 0.0)
    with time_limit(-1.0), pytest.raises(TimeLimitReached):
        fingerprint(array)
    assert fingerprint(array) == wanted
