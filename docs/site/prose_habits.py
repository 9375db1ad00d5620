"""Count habits of unidiomatic prose: `python docs/site/prose_habits.py [--list]`.

It reads the pages, and the docstrings, messages and comments of the sources. The number of
occurrences of each habit has a limit, because a pattern also matches correct sentences. A higher
number fails; `--list` shows all matches. Functions named by a participle count as a habit too.
Lower a limit whenever an edit lowers the number.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

HABITS = {
    "a program or a caller as `who`": (r"\b(?:[Ww]ho|[Ww]hoever|[Ss]omebody)\b", 12),
    "is asked, is told, is said": (r"\b(?:is|are|was|were|be) (?:asked|told|said)\b", 12),
    "so many": (r"\bso many\b", 4),
    "that of, those of": (r"\b(?:that|those) of\b", 30),
    "`x` is none": (r"\b[Ii]f `\w+`(?: or `\w+`)? is none\b", 0),
    "participle first": (
        r"(?:^|[.!?:] )(?:Asked|Counted|Given|Kept|Known|Made|Public|Read|Said|Stored|Written)"
        r" (?:is|are)\b",
        0,
    ),
    "the same in every bit": (r"\bsame in every bit\b", 0),
    "`not read` for `not supported`": (r"\b(?:is|are) not read\b(?! back)", 0),
    "`None for none`": (r"\b[Nn]one for none\b", 0),
    "opens with how, what, which or where": (r"\A(?:How|What|Which|Where)\b(?![^?]*\?)", 48),
    "go on for continue": (r"\b(?:go|goes|going|went) on\b(?! top)", 5),
    "look at for use, read or visit": (r"\blook(?:s|ed)? at\b", 13),
    "memory as a room, workers as a crew": (r"\b(?:[Rr]ooms?|[Cc]rews?|lent|lends?)\b", 7),
}
PARTICIPLES = (r"\bdef _?[a-z_]*[a-z]ed\(", 60)


class Place(NamedTuple):
    """A line of a file."""

    path: str
    line: int
    text: str


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield docstrings, messages and other strings with several words, and their first lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def python_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the prose of a Python file: strings and comments."""
    yield from strings(ast.parse(source))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def texts(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file with the lines where it begins."""
    if path.endswith(".py"):
        yield from python_texts(source)
    elif path.endswith(".md"):
        yield 1, re.sub(r"```.*?```", lambda block: "\n" * block[0].count("\n"), source, flags=re.S)
    else:
        for match in re.finditer(r"//[^\n]*|/\*.*?\*/", source, re.S):
            yield source.count("\n", 0, match.start()) + 1, match[0]


def is_read(path: str) -> bool:
    """Whether people read the prose of a file as that of the library."""
    if path.startswith(("src/", "core/")):
        return path.endswith((".py", ".hpp", ".cpp", ".h", ".js"))
    return path.endswith(".md") and not path.startswith("tests/")


def places(pattern: str, sources: dict[str, str]) -> list[Place]:
    """Return the matches of a pattern in the prose of some files."""
    found = []
    for path, source in sources.items():
        for first, text in texts(path, source):
            for match in re.finditer(pattern, text, re.M):
                line = first + text.count("\n", 0, match.start())
                around = text[max(0, match.start() - 40) : match.end() + 40]
                found.append(Place(path, line, " ".join(around.split())))
    return found


def participles(sources: dict[str, str]) -> list[Place]:
    """Return the functions named by a participle."""
    return [
        Place(path, source.count("\n", 0, match.start()) + 1, match[0])
        for path, source in sources.items()
        if path.endswith(".py")
        for match in re.finditer(PARTICIPLES[0], source)
        if not re.search(r"(?:ee|embed|shed|is_\w+|has_\w+|are_\w+)d?\($", match[0])
    ]


def main() -> None:
    """Print the number of matches of each habit; exit with 1 if one exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="Show every match.")
    options = parser.parse_args()
    names = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    sources = {name: (ROOT / name).read_text(encoding="utf-8") for name in names if is_read(name)}
    rows = [(name, limit, places(pattern, sources)) for name, (pattern, limit) in HABITS.items()]
    rows.append(("a function named by a participle", PARTICIPLES[1], participles(sources)))
    failed = False
    for name, limit, found in rows:
        failed |= len(found) > limit
        print(f"{len(found):5} (limit {limit:3})  {name}")
        if options.list or len(found) > limit:
            for place in found[: None if options.list else 5]:
                print(f"        {place.path}:{place.line}: {place.text}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
