"""Which cases of a parametrised test belong to the quick run; all of them run with `make test-all`."""

from collections.abc import Iterable
from typing import Any

import pytest


def mostly_slow(cases: Iterable[Any], *, quick: int) -> list[Any]:
    """Mark all cases as slow except for so many, which are spread evenly: of ten cases and two quick ones, 1 and 6.

    A tuple is a case with several arguments.
    """
    known = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*case, marks=() if place * quick % len(known) < quick else pytest.mark.slow)
        for place, case in enumerate(known)
    ]
