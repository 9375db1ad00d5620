"""The reference: one page for each public package, every public name from its docstring."""

import inspect
from importlib import import_module

from hardmax._ground.public_names import PACKAGES


def reference_pages() -> dict[str, str]:
    """Return a page for each package, and one that lists them."""
    pages = {f"reference/{package}.md": package_page(package) for package in PACKAGES}
    rows = "".join(
        f"| [`{package}`]({package}.md) | {_first_line(import_module(package))} |"
        f" {len(public_names(package))} |\n"
        for package in PACKAGES
    )
    contents = "\n".join(PACKAGES)
    pages["reference/index.md"] = (
        "# Every public name\n\nEach name is public in one place; what that promises is said under "
        "[what is promised](../promises.md). Examples in docstrings are executed by the tests.\n\n"
        f"| package | subject | names |\n|---|---|---:|\n{rows}\n"
        f"```{{toctree}}\n:hidden:\n\n{contents}\n```\n"
    )
    return pages


def public_names(package: str) -> list[str]:
    """Return the public names of a package, without packages in it.

    Examples:
        >>> public_names("hardmax.exact")[0]
        'Decisions'
    """
    module = import_module(package)
    return sorted(
        (name for name in module.__all__ if not inspect.ismodule(getattr(module, name))),
        key=str.lower,
    )


def package_page(package: str) -> str:
    """Return the page of a package: its names with what they do, then each in full."""
    module = import_module(package)
    names = public_names(package)
    rows = "".join(
        f"| {{py:obj}}`{name} <{package}.{name}>` | {_first_line(getattr(module, name))} |\n"
        for name in names
    )
    text = f"# {package}\n\n{_first_line(module)}\n\n| name | what it is |\n|---|---|\n{rows}\n"
    return text + "".join(_entry(package, name, getattr(module, name)) for name in names)


def _entry(package: str, name: str, thing: object) -> str:
    if inspect.isclass(thing):
        kind = "exception" if issubclass(thing, BaseException) else "class"
        members = "" if kind == "exception" else "   :members:\n"
    else:
        kind, members = ("function" if _has_code(thing) else "data"), ""
    return f"```{{eval-rst}}\n.. auto{kind}:: {package}.{name}\n{members}```\n\n"


def _has_code(thing: object) -> bool:
    return inspect.isroutine(thing) or hasattr(thing, "__wrapped__")


def _first_line(thing: object) -> str:
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", r"\|")
