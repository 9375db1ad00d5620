"""The ledger on disk and on the command line."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest
import typer
from typer.testing import CliRunner

from hardmax._ground.records import Record
from hardmax.cli.audit import _shorten, audit
from hardmax.errors import ArgumentError
from hardmax.papers.audit import (
    audit_record,
    make_folder,
    read_audit,
    read_current_summary,
    run_audit,
    write_audit,
)
from hardmax.papers.ledger import all_claims, find_claims

CLAIMS = {claim.id: claim for claim in all_claims()}


def test_files_are_written(tmp_path):
    some = run_audit(find_claims("Fig3") + find_claims("III-E.1"))
    written = write_audit(some, tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["audit.json", "audit.html", "Fig3.svg"]
    stored = Record.load(written[0])
    assert list(stored.results.pop("files")) == ["audit.html", "Fig3.svg"]
    assert stored == audit_record(some)
    page = written[1].read_text()
    assert "data:image/svg+xml;base64," in page
    assert "<script" not in page
    assert json.loads(written[0].read_text())["name"] == "audit"


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArgumentError, match="`out` must be a writable folder"):
        write_audit([], tmp_path / "file")


def test_a_written_ledger_is_read_back(tmp_path):
    some = run_audit(find_claims("Fig3"))
    write_audit(some, tmp_path)
    (ruling,) = read_audit(tmp_path)
    assert (ruling.id, ruling.verdict) == ("Fig3", some[0].finding.verdict.value)
    assert read_audit(tmp_path / "nothing") == []
    (tmp_path / "audit.json").write_text("{}")
    assert read_audit(tmp_path) == []


@pytest.fixture
def kept(tmp_path, monkeypatch):
    few = find_claims("Fig3") + find_claims("III-E.1")
    monkeypatch.setattr("hardmax.papers.audit.all_claims", lambda: few)
    write_audit(run_audit(), tmp_path)
    return tmp_path


def test_an_unchanged_ledger_need_not_be_computed_again(kept):
    words = "2 claims: 0 holds, 0 holds with conditions, 0 loose, 2 false, 0 not checkable."
    assert read_current_summary(kept) == words


@pytest.mark.parametrize(
    "change",
    ["code", "version", "claims", "page", "picture", "no record", "no files", "damaged", "list"],
)
def test_a_ledger_that_may_be_stale_or_damaged_is_computed_again(kept, monkeypatch, change):
    path = kept / "audit.json"
    record = Record.load(path)
    if change == "code":
        monkeypatch.setattr("hardmax.papers.audit.code_fingerprint", lambda: "0" * 64)
    elif change == "version":
        replace(record, versions={**record.versions, "numpy": "0"}).save(path)
    elif change == "claims":
        monkeypatch.setattr("hardmax.papers.audit.all_claims", lambda: find_claims("Fig3"))
    elif change in ("page", "picture"):
        (kept / ("audit.html" if change == "page" else "Fig3.svg")).write_text("x")
    elif change == "no record":
        path.unlink()
    elif change == "damaged":
        path.write_text(path.read_text()[:-20])
    else:
        files = {"no files": {}, "list": {"files": [1]}}[change]
        rest = {key: value for key, value in record.results.items() if key != "files"}
        replace(record, results={**rest, **files}).save(path)
    assert read_current_summary(kept) is None


def run(*arguments):
    app = typer.Typer()
    app.command()(audit)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_the_command_explains_one_claim(tmp_path):
    done = run("--claim", "fig3", "--out", str(tmp_path))
    assert done.exit_code == 0
    assert "false" in done.output
    assert "convex hull" in done.output
    assert (tmp_path / "Fig3.svg").stat().st_size > 1000
    assert "picture:" in done.output


def test_the_command_lists_all_claims():
    done = run("--list")
    assert [line.split()[0] for line in done.output.splitlines()] == list(CLAIMS)


def test_the_command_prints_a_table(tmp_path, monkeypatch):
    few = [CLAIMS["III.4"], CLAIMS["III-E.1"], CLAIMS["Fig6a.2"]]
    monkeypatch.setattr("hardmax.papers.ledger.all_claims", lambda: few)
    done = run("--out", str(tmp_path))
    assert "3 claims: 1 holds, 0 holds with conditions, 0 loose, 1 false, 1 not checkable." in (
        " ".join(done.output.split())
    )
    assert (tmp_path / "audit.json").exists()


def test_a_narrow_table_cuts_no_word_off(tmp_path, monkeypatch):
    monkeypatch.setattr("hardmax.papers.ledger.all_claims", lambda: [CLAIMS["I.3a"]])
    monkeypatch.setenv("COLUMNS", "60")
    done = run("--out", str(tmp_path))
    assert "I.3a" in done.output
    assert "…" not in done.output


def test_explaining_one_claim_leaves_the_whole_ledger_alone(tmp_path, monkeypatch):
    few = [CLAIMS["III.4"], CLAIMS["III-E.1"]]
    monkeypatch.setattr("hardmax.papers.ledger.all_claims", lambda: few)
    run("--out", str(tmp_path))
    before = (tmp_path / "audit.json").read_bytes()
    done = run("--claim", "iii.4", "--out", str(tmp_path))
    assert "III.4.json" in " ".join(done.output.split())
    assert "<h1>Claim III.4, with recomputed verdicts</h1>" in (tmp_path / "III.4.html").read_text()
    assert "<h1>All claims, with recomputed verdicts" in (tmp_path / "audit.html").read_text()
    assert (tmp_path / "audit.json").read_bytes() == before
    assert [ruling.id for ruling in read_audit(tmp_path)] == ["III.4", "III-E.1"]


def test_a_folder_that_cannot_be_written_is_found_before_anything_is_checked(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr("hardmax.papers.audit.run_audit", lambda claims: pytest.fail("was run"))
    with pytest.raises(ArgumentError, match="`out` must be a writable folder"):
        run("--claim", "III.4", "--out", str(tmp_path / "file" / "folder"))


def test_a_folder_without_permission_is_an_error(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ArgumentError, match=r"`out` must be a writable folder.* Permission denied"):
        make_folder(tmp_path)


def test_numbers_are_printed_as_they_read():
    assert _shorten([Fraction(1, 2), (Fraction(3), 0.125)]) == "[1/2, [3, 0.125]]"
    assert _shorten(1.9204917439698532) == "1.92049"
    assert len(_shorten(list(range(99)))) == 120


def test_a_narrow_terminal_shows_every_word(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    done = run("--claim", "VI.2e", "--out", str(tmp_path))
    assert max(map(len, done.output.splitlines()[:-3])) <= 60
    words = " ".join(done.output.split())
    assert find_claims("VI.2e")[0].statement in words


def test_a_page_counts_what_is_said_twice_once(tmp_path):
    twice = run_audit(find_claims("III-D") + find_claims("VI.2a"))
    page = write_audit(twice, tmp_path)[1].read_text()
    assert "<p>1 claim (1 more repeats another claim), each with a check" in page
    assert "; repeats III-D" in page
    assert [ruling.repeats for ruling in read_audit(tmp_path)] == ["", "III-D"]


def test_a_record_that_knows_no_repetitions_is_read(tmp_path):
    write_audit(run_audit(find_claims("VI.2a")), tmp_path)
    record = json.loads((tmp_path / "audit.json").read_text())
    # Records of the previous format have no hash of their content.
    del record["content"]
    record["format"] = "hardmax.record/1"
    text = json.dumps(record).replace('"repeats": "III-D", ', "")
    assert text != json.dumps(record)
    (tmp_path / "audit.json").write_text(text)
    assert [ruling.repeats for ruling in read_audit(tmp_path)] == [""]
