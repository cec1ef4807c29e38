"""Branches of the conversation."""

import pytest

from session_core.ids import MessageId
from session_core.session.message_tree import newest_leaf, siblings
from session_core.vocabulary.messages import Message, Role


def message(name: str, parent: str | None, role: Role = "user") -> Message:
    parent_id = MessageId(parent) if parent else None
    return Message(message_id=MessageId(name), parent_id=parent_id, role=role, parts=(), created_at=0)


TREE = [
    message("a", None),
    message("b", "a", "assistant"),
    message("a2", None),
    message("c", "b"),
    message("b2", "a", "assistant"),
    message("d", "a2"),
]


@pytest.mark.parametrize(("through", "leaf"), [("a", "b2"), ("b", "c"), ("c", "c"), ("a2", "d"), ("b2", "b2")])
def test_the_newest_leaf(through: str, leaf: str) -> None:
    """The branch through a message goes down to the newest message that descends from it."""
    assert leaf == newest_leaf(TREE, MessageId(through))


def test_versions_of_a_message() -> None:
    """Versions share the parent and the role, oldest first."""
    assert (TREE[0], TREE[2]) == siblings(TREE, TREE[2])
    assert (TREE[1], TREE[4]) == siblings(TREE, TREE[1])
    assert (TREE[3],) == siblings(TREE, TREE[3])
