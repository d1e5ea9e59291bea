"""The rooms of each package, and which room may import which: the tables of the architecture page, and nothing else."""

import re
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from source_imports import HOMES, ROOT, files_of, imports, module_name

PAGE = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (?P<name>[\w. ]+?)(?:: (?P<files>`[^|]+`))? \| [^|]+ \| (?P<imports>[^|]*) \|$", re.MULTILINE)


def _table(package):
    """The rooms of a package: which files are in each, as patterns, and which rooms it imports."""
    section = re.search(rf"^### `{package}`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, package
    rooms = {}
    for row in ROW.finditer(section[1]):
        if row["name"] not in ("room", "---"):
            files = re.findall(r"`([^`]+)`", row["files"] or "") or [f"{row['name'].replace('.', '/')}/*.py"]
            rooms[row["name"]] = (files, set(filter(None, re.split(r",\s*", row["imports"].strip()))))
    return rooms


def _rooms_of_modules(package):
    """The room of each module; the package's own ``__init__.py``, which names what is public, belongs to none."""
    home, found = HOMES[package], {}
    for room, (patterns, _) in _table(package).items():
        for pattern in patterns:
            paths = list(home.glob(pattern))
            assert paths, f"{room}: {pattern} is no file of {package}"
            for path in paths:
                module = module_name(path)
                assert found.setdefault(module, room) == room, f"{module} is in {room} and in {found[module]}"
    homeless = {module_name(path) for path in files_of(home)} - set(found) - {package}
    assert not homeless, f"in no room of docs/architecture.md: {sorted(homeless)}"
    return found


@pytest.mark.parametrize("package", HOMES)
def test_each_room_imports_the_rooms_that_the_page_says(package):
    rooms, arrows = _rooms_of_modules(package), defaultdict(set)
    for path in files_of(HOMES[package]):
        source = rooms.get(module_name(path))
        for target in {rooms[name] for name in imports(path) if name in rooms} - {source}:
            if source is not None:
                arrows[source].add(target)
    said = {room: allowed for room, (_, allowed) in _table(package).items()}
    assert {room: arrows[room] for room in said} == said


@pytest.mark.parametrize("package", HOMES)
def test_no_rooms_import_each_other_in_a_circle(package):
    TopologicalSorter({room: allowed for room, (_, allowed) in _table(package).items()}).prepare()


def test_no_folder_has_more_files_than_one_can_look_over():
    others = [ROOT / name for name in ("tests", "integrations_tests", "examples", "benchmarks")]
    for home in [*HOMES.values(), *others]:
        for folder in {path.parent for path in files_of(home)}:
            assert len(list(folder.glob("*.py"))) <= 26, folder  # 25, and __init__.py or conftest.py


@pytest.mark.parametrize("package", HOMES)
def test_the_tests_of_a_room_lie_at_its_place(package):
    """A folder of tests is named after a room, or after the one file that it tests; the documents have their own."""
    tests = Path(__file__).parent / package
    for folder in {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")} - {Path("documents")}:
        place = HOMES[package] / folder
        assert place.is_dir() or place.with_suffix(".py").is_file(), folder
