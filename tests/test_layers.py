"""The import table in docs/architecture.md is true: nothing else is imported, nothing in it is unused, no cycles."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import evenglot

PACKAGE = Path(evenglot.__file__).parent
TABLE = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)/?` \| [^|]+ \| ?([\w, ]*?) ?\|$", re.MULTILINE)
ALLOWED = {name: set(filter(None, imports.split(", "))) for name, imports in ROW.findall(TABLE)}
SHARED = {path.stem for path in PACKAGE.glob("*.py")} - set(ALLOWED) - {"__init__", "__main__"}


def room(module: str) -> str | None:
    """'corpus' of 'evenglot.corpus.read'; None for what is not ours, or for the package itself."""
    parts = module.split(".")
    return parts[1] if parts[0] == "evenglot" and len(parts) > 1 else None


def imported(file: Path) -> set[str]:
    """The rooms and shared modules that a file imports, inside functions and for type checking too."""
    found: set[str | None] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {room(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            if node.module == "evenglot":
                found |= {alias.name for alias in node.names if alias.name != "__version__"}
            else:
                found.add(room(node.module or ""))
    return {name for name in found if name is not None}


def imports_of(name: str) -> set[str]:
    place = PACKAGE / name
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    return set.union(*map(imported, files)) - {name}


def test_the_table_names_every_folder():
    folders = {path.parent.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*/*.py")}
    assert folders <= set(ALLOWED)


def test_every_import_is_in_the_table_and_every_entry_is_used():
    for name, allowed in ALLOWED.items():
        assert imports_of(name) - SHARED == allowed, name


def test_shared_modules_import_nothing_but_each_other():
    for name in SHARED:
        assert imports_of(name) <= SHARED, name


def test_there_are_no_cycles():
    graph = {name: imports_of(name) for name in (*ALLOWED, *SHARED)}
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)
