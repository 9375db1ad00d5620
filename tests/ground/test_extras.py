"""Optional libraries: loaded by name, and named when they are missing."""

import sys

import pytest

from hardmax._ground.extras import load_extra
from hardmax.errors import MissingExtraError


def test_a_library_that_is_there_is_returned():
    assert load_extra("json.decoder", extra="x", purpose="Pages") is sys.modules["json.decoder"]


@pytest.mark.parametrize("library", ["no_such_library", "no_such_library.part"])
def test_a_missing_library_is_named_with_the_command_that_installs_it(library):
    with pytest.raises(MissingExtraError) as refused:
        load_extra(library, extra="web", purpose="Pages")
    assert str(refused.value) == (
        "Pages need no_such_library, which is not installed; run `pip install 'hardmax[web]'`."
    )
    assert isinstance(refused.value, ImportError)


@pytest.mark.parametrize(
    ("content", "error"),
    [("import no_such_thing", ModuleNotFoundError), ("raise ImportError('broken')", ImportError)],
)
def test_a_broken_library_is_not_called_missing(tmp_path, monkeypatch, content, error):
    (tmp_path / "broken_library.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error) as failure:
        load_extra("broken_library", extra="web", purpose="Pages")
    assert not isinstance(failure.value, MissingExtraError)
