"""The records, the tables and the command line."""

import json
import subprocess
import sys
import time
from math import log10

import pytest
import typer
from typer.testing import CliRunner

from hardmax import bounds
from hardmax.bounds import Bound, Estimate, paper
from hardmax.cli.bounds import bounds as command
from hardmax.errors import HardmaxError

REAL = (512, 8, 512, 2048, 12)


def invoke(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "160"}, catch_exceptions=False)


def test_a_bound_is_its_base_to_its_exponent():
    bound = Bound("cells", 7, "upper", "always", "[X]", exponent=3)
    assert bound.value == 343
    assert bound.text == "343"
    assert bound.log10 == pytest.approx(log10(343))
    assert bound.as_mapping()["value"] == "343"
    assert Bound("cells", 7, "upper", "always", "[X]", exponent=0).value == 1


def test_astronomical_bounds_print_without_their_digits():
    bound = Bound("cells", 3**5000, "lower", "", "[X]", exponent=400)
    assert bound.text == repr(bound).split(">= ")[1].split(";")[0]
    assert bound.text.endswith("e954242")
    assert bound.as_mapping()["value"] is None
    assert bound.value == 3**2_000_000
    with pytest.raises(ValueError, match="digits"):
        str(bound.value)


@pytest.mark.parametrize("digits", [14, 15, 16, 40, 5000])
def test_the_printed_power_of_ten_is_the_right_one(digits):
    for value in (10**digits, 10**digits - 1, 10**digits + 1, 7 * 10**digits):
        mantissa, _, exponent = Bound("x", value, "exact", "", "").text.partition("e")
        power = int(exponent) if exponent else 0
        assert abs(int(float(mantissa) * 1000) * 10**power - 1000 * value) <= value


def test_rounding_up_carries_into_the_power_of_ten():
    assert Bound("x", 99_999 * 10**20, "exact", "", "").text == "1.000e25"
    assert Bound("x", 99_940 * 10**20, "exact", "", "").text == "9.994e24"


def test_estimates_are_not_bounds():
    estimate = Estimate("vertices", 2.5, "", "[X]")
    assert not isinstance(estimate, Bound)
    assert estimate.kind == "estimate"
    assert "~" in repr(estimate)
    assert estimate.as_mapping()["value"] == pytest.approx(10**2.5)
    assert Estimate("many", 1e6, "", "").text == "1.000e1000000"
    assert Estimate("few", -0.5, "", "").text == "0.3162"


def test_the_table_holds_the_functions_values():
    rows = bounds.transformer_table(6, 3, 3, 12, 2, head_dim=2)
    by_name = {(row.name, row.kind): row.value for row in rows}
    assert by_name["attention layer, no bias", "exact"] == 92
    assert by_name["attention layer, query bias", "exact"] == 216
    assert by_name["attention layer, Theorem V.2", "claim"] == 216
    assert by_name["attention layer, Appendix D", "claim"] == paper.appendix_d(6, 3, 3)
    assert by_name["attention layer, Remark V.6", "claim"] == paper.remark_v6(6, 3, 3)
    naive = by_name["attention layer, all pairs of keys as hyperplanes", "upper"]
    assert naive == paper.naive_hyperplanes(6, 3, 3)
    assert by_name["feed-forward layer", "exact"] == bounds.zaslavsky(12, 3)
    for bias in ("none", "query", "logit"):
        name = f"model, {'no' if bias == 'none' else bias} bias"
        upper = bounds.transformer_upper(6, 3, 3, 12, 2, bias=bias, head_dim=2)
        lower = bounds.transformer_lower(6, 3, 3, 12, 2, bias=bias, head_dim=2)
        assert (by_name[name, "upper"], by_name[name, "lower"]) == (upper, lower)
    assert by_name["model, Theorem V.5", "claim"] == paper.theorem_v5(6, 3, 3, 12, 2)
    assert by_name["model, Theorem V.7", "claim"] == paper.theorem_v7(6, 3, 12, 2)


@pytest.mark.parametrize("d_ff", [6, 7, 13, 17, 23])
def test_theorem_v7_is_quoted_with_its_rounding(d_ff):
    rows = bounds.transformer_table(4, 3, 3, d_ff, 2)
    (row,) = [row for row in rows if row.name == "model, Theorem V.7"]
    assert row.value == paper.theorem_v7(4, 3, d_ff, 2)


def test_the_table_leaves_out_what_does_not_apply():
    names = [row.name for row in bounds.transformer_table(4, 2, 3, 0, 1)]
    assert "feed-forward layer" not in names
    assert "model, Theorem V.7" not in names


def test_every_row_says_where_it_comes_from():
    rows = [*bounds.transformer_table(*REAL), *bounds.relu_table(4, [9, 9])]
    assert all(row.name and row.assumptions and "[" in row.source for row in rows)
    assert all(row.log10 >= 0 for row in rows)


def test_the_relu_table_is_ordered_and_survives_wide_layers():
    product, active, histograms, folds, typical = bounds.relu_table(2, [4, 3, 4])
    assert folds.value <= histograms.value < active.value < product.value
    assert isinstance(typical, Estimate)
    wide = bounds.relu_table(512, [2048, 2048])
    assert "activation histograms" not in [row.name for row in wide]
    narrow = bounds.relu_table(4, [2, 4])
    assert "folds, cells" not in [row.name for row in narrow]
    assert "folds, cells" in [row.name for row in bounds.relu_table(4, [4, 2])]


@pytest.mark.parametrize("widths", [[12], [1, 3], [3, 5], [3, 4000], [2, 2, 2], [9, 1, 9]])
@pytest.mark.parametrize("input_dim", [1, 2, 3, 9])
def test_no_row_of_the_relu_table_contradicts_another(input_dim, widths):
    *rows, typical = bounds.relu_table(input_dim, widths)
    above = [row.value for row in rows if row.kind in ("exact", "upper")]
    assert all(row.value >= min(above) for row in rows if row.kind == "exact")
    assert all(row.value <= min(above) for row in rows if row.kind == "lower")
    assert typical.log10 <= min(row.log10 for row in rows if row.kind in ("exact", "upper"))


def test_the_estimate_for_a_transformer_is_at_most_what_its_units_can_make():
    typical = bounds.transformer_table(2, 2, 9, 4, 3)[-1]
    assert typical.value == pytest.approx(2**12)
    assert typical.source == "[Zas75]"


@pytest.mark.parametrize(
    "shape", [REAL, (100_000, 128, 512, 2048, 96), (2048, 96, 4096, 16384, 96), (1, 1, 1, 0, 1)]
)
def test_real_sizes_take_less_than_a_second(shape):
    bounds.transformer_table(*REAL)  # imports SciPy
    start = time.process_time()
    rows = bounds.transformer_table(*shape)
    texts = [row.text for row in rows]
    assert time.process_time() - start < 1
    assert all(texts)


def test_the_command_prints_the_table():
    result = invoke(
        "--keys", "512", "--heads", "8", "--dim", "512", "--depth", "12", "--d-ff", "2048"
    )
    assert result.exit_code == 0
    assert "d_k = any" in result.output
    assert "4.722e21" in result.output
    assert "[MRZ22]" in result.output
    assert "6.751e6243" in result.output


def test_the_command_has_the_default_head_size_of_python():
    result = invoke(
        "--keys", "6", "--heads", "2", "--dim", "2", "--d-ff", "8", "--depth", "2", "--json"
    )
    (row,) = [
        row
        for row in json.loads(result.output)
        if (row["name"], row["kind"]) == ("model, query bias", "upper")
    ]
    upper = bounds.transformer_upper(6, 2, 2, 8, 2, bias="query")
    assert int(row["value"]) == upper == 1_774_224


def test_the_command_prints_json():
    result = invoke("--keys", "6", "--heads", "3", "--dim", "3", "--head-dim", "2", "--json")
    rows = json.loads(result.output)
    assert rows[0]["value"] == "92"
    assert {row["kind"] for row in rows} == {"exact", "upper", "lower", "claim", "estimate"}


def test_the_command_refuses_bad_sizes_by_name():
    with pytest.raises(HardmaxError, match="`n_heads`"):
        invoke("--keys", "6", "--heads", "0", "--dim", "3")
    with pytest.raises(HardmaxError, match="`n_keys`"):
        invoke("--keys", "0", "--heads", "1", "--dim", "3")
    with pytest.raises(HardmaxError, match="`head_dim`"):
        invoke("--keys", "4", "--heads", "1", "--dim", "3", "--head-dim", "0")


def test_importing_the_bounds_loads_no_slow_library():
    code = "import hardmax.bounds, hardmax.cli.bounds, sys; print(' '.join(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not {"scipy", "flint", "matplotlib", "highspy"} & set(loaded.stdout.split())


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: Bound("x", 0, "upper", "", ""), "`base`"),
        (lambda: Bound("x", 2.5, "upper", "", ""), "`base`"),
        (lambda: Bound("x", 2, "upper", "", "", exponent=-1), "`exponent`"),
        (lambda: Bound("x", 2, "estimate", "", ""), "`kind`"),
        (lambda: Estimate("x", float("nan"), "", ""), "`log10`"),
        (lambda: bounds.transformer_table(6, 3, 3, 12, 0), "`depth`"),
        (lambda: bounds.transformer_table(6, 3, 3, -1, 1), "`d_ff`"),
    ],
)
def test_bad_records_are_refused_by_name(call, name):
    with pytest.raises(HardmaxError, match=name):
        call()
