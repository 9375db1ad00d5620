"""Optional libraries: loaded by name, and named in the error if they are missing."""

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest

from hardmax._ground import extras
from hardmax._ground.extras import install_command, load_extra
from hardmax.errors import MissingExtraError


def test_a_library_that_is_there_is_returned():
    assert load_extra("json.decoder", extra="x", purpose="Pages") is sys.modules["json.decoder"]


@pytest.mark.parametrize("library", ["no_such_library", "no_such_library.part"])
def test_a_missing_library_is_named_with_the_command_that_installs_it(library):
    with pytest.raises(MissingExtraError) as refused:
        load_extra(library, extra="web", purpose="Pages")
    assert str(refused.value) == (
        f"Pages need no_such_library, which is not installed; run `{install_command('web')}`."
    )
    assert isinstance(refused.value, ImportError)


def test_an_extra_is_installed_from_where_the_package_came_from(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "sources"
    (root / "src" / "hardmax" / "_ground").mkdir(parents=True)
    monkeypatch.setattr(extras, "__file__", str(root / "src" / "hardmax" / "_ground" / "extras.py"))
    url = None

    class Installed:
        def read_text(self, name):
            assert name == "direct_url.json"
            return None if url is None else json.dumps({"url": url})

    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Installed())
    assert install_command("web") == "pip install 'hardmax[web]'"
    wheel = tmp_path / "a wheel.whl"
    url = wheel.as_uri()
    assert install_command("web") == "pip install 'hardmax[web]'"  # The wheel does not exist.
    wheel.touch()
    assert install_command("web") == f"pip install '{wheel}[web]'"
    url = "https://example.org/hardmax.whl"
    assert install_command("web") == "pip install 'hardmax[web]'"
    (root / "pyproject.toml").touch()
    assert install_command("web") == f"pip install -e '{root}[web]'"
    monkeypatch.chdir(root)
    assert install_command("web") == "pip install -e '.[web]'"
    monkeypatch.chdir(Path("src"))
    assert install_command("web") == f"pip install -e '{root}[web]'"


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
