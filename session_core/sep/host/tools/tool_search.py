"""The tool with which a model finds deferred tools."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from session_core.ids import SessionId
from session_core.tools.arguments import count_argument, refuse_unknown, text_argument
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import Effect, ToolSpec

TOOL_SEARCH: Final = "tool_search"
MOST_FOUND: Final = 20
"""The most tools that one search shows; a model that needs more searches again."""
_USUALLY_FOUND: Final = 5
_QUERY_CHARS: Final = 500
_SEARCHED_CHARS: Final = 2_000  # of a description: its beginning says what a tool is for
_LINE_CHARS: Final = 300
_NAMES_LISTED: Final = 50
_SOURCES_LISTED: Final = 20
_WORD: Final = re.compile(r"[^\W_]+")
_READS: Final[frozenset[Effect]] = frozenset({"read"})

Promote = Callable[[SessionId, Iterable[str]], None]
"""Shows tools to a session's model from its next call on."""


class ToolSearch:
    """Find deferred tools by their purpose; the tools found can be called from the next step on.

    Args:
        specs: The tools that can be found.
        promote: Called with what a session has found.
    """

    effects = _READS

    def __init__(self, specs: Sequence[ToolSpec], promote: Promote) -> None:
        self._specs = specs
        self._promote = promote
        sources = sorted({spec.name.partition(".")[0] for spec in specs})
        more = ", and others" if len(sources) > _SOURCES_LISTED else ""
        self.spec = ToolSpec(
            name=TOOL_SEARCH,
            description=(
                f"Find more tools. There are {len(specs)} that are only shown when they were searched for, from: "
                f"{', '.join(sources[:_SOURCES_LISTED])}{more}. Say in a few words what you need, or name a tool; "
                "those that fit are added to your tools, and you can call them in your next step."
            ),
            parameters=JsonObject(
                {
                    "type": "object",
                    "properties": {
                        "query": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": _QUERY_CHARS,
                            "description": "What the tool should do, in a few words, or its name.",
                        },
                        "limit": {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": MOST_FOUND,
                            "description": f"How many to add at most; {_USUALLY_FOUND} if left out.",
                        },
                    },
                    "required": ["query"],
                    "additionalProperties": False,
                }
            ),
        )

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Search, and promote the matches; there is nothing to cancel."""
        refuse_unknown(arguments, self.spec)
        query = text_argument(arguments, "query")[:_QUERY_CHARS]
        if not query.strip():
            raise ToolFailed("the argument 'query' must not be empty")
        limit = min(count_argument(arguments, "limit") or _USUALLY_FOUND, MOST_FOUND)
        found = search(self._specs, query)[:limit]
        if not found:
            names = [spec.name for spec in self._specs[:_NAMES_LISTED]]
            more = f", and {len(self._specs) - _NAMES_LISTED} more" if len(self._specs) > _NAMES_LISTED else ""
            return ToolOutput(text=f"No tool fits. There are: {', '.join(names)}{more}.")
        self._promote(context.session_id, [spec.name for spec in found])
        lines = [f"- {spec.name}: {_first_line(spec.description)}" for spec in found]
        return ToolOutput(
            text="\n".join(["These are among your tools from now on:", *lines]),
            details=JsonObject({"tools": tuple(spec.name for spec in found)}),
        )


def search(specs: Iterable[ToolSpec], query: str) -> list[ToolSpec]:
    """Return the tools that match a query, the best first; an exact name comes before everything else."""
    named = {part.strip(".,;:`'\"") for part in query.split()}
    words = {word.lower() for word in _WORD.findall(query)}
    rated = [(_rating(spec, named, words), spec) for spec in specs]
    return [spec for rating, spec in sorted(rated, key=lambda each: (-each[0], each[1].name)) if rating]


def _rating(spec: ToolSpec, named: set[str], words: set[str]) -> int:
    _, _, bare = spec.name.partition(".")
    name, about = spec.name.lower(), spec.description[:_SEARCHED_CHARS].lower()
    in_name, in_text = set(_WORD.findall(name)), set(_WORD.findall(about))
    rating = 1_000 if spec.name in named or bare in named else 0
    for word in words:
        if word in in_name:
            rating += 6
        elif len(word) > 2 and word in name:
            rating += 3
        if word in in_text:
            rating += 2
        elif len(word) > 3 and any(each.startswith(word) for each in in_text):
            rating += 1
    return rating


def _first_line(description: str) -> str:
    line = next((line.strip() for line in description.splitlines() if line.strip()), "(no description)")
    return line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}..."
