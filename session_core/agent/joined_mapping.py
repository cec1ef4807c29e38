"""Two mappings seen as one, both of which may change."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


class JoinedMapping(Mapping[str, T]):
    """The configured entries, then those that extensions currently provide; configured ones take precedence."""

    def __init__(self, configured: Mapping[str, T], brought: Mapping[str, T]) -> None:
        self._configured = configured
        self._brought = brought

    def __getitem__(self, name: str) -> T:
        return self._configured[name] if name in self._configured else self._brought[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._configured, *self._brought)))

    def __len__(self) -> int:
        return len({*self._configured, *self._brought})
