"""A report, not a check: modules that might be part of another one. Run `python -m tests.architecture.small_modules`.

A module with few lines and one importer next door is often a piece cut off to keep another short. It stays apart if its
name answers a question that the other's name does not.
"""

import sys
from collections import defaultdict
from pathlib import Path

from tests.architecture._source import ROOT, module_name, package_name, python_files, read_facts

FEW_LINES = 60


def find_small_modules(root: Path) -> list[tuple[int, str, str]]:
    """Return the lines, name and only importer of each short module that one neighbour alone imports."""
    files = {module_name(path, root): path for path in python_files("session_core", "frontends", root=root)}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in files.items():
        for found in read_facts(path, root).imports:
            reached = found.target if found.target in files else found.module
            if reached != name:
                importers[reached].add(name)
    small = []
    for name, path in files.items():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if path.name in {"__init__.py", "__main__.py"} or lines > FEW_LINES or len(importers[name]) != 1:
            continue
        [importer] = importers[name]
        if package_name(files[importer], root) == package_name(path, root):
            small.append((lines, name, importer))
    return sorted(small)


if __name__ == "__main__":
    for lines, name, importer in find_small_modules(ROOT):
        sys.stdout.write(f"{lines:4}  {name}  <-  {importer}\n")
