"""Keys that were typed before a question could be read never answer it."""

from frontends.terminal.questions.key_guard import KeyGuard


def test_nothing_counts_before_a_question_is_drawn() -> None:
    """While the question is not on the screen, every key was meant for something else."""
    settling = KeyGuard(0)
    settling.begin()

    assert not settling.accepts_key(1e9)


def test_a_key_counts_after_a_quiet_moment() -> None:
    """A key right after the question appeared does not count, and starts the waiting anew, until there was a pause."""
    settling = KeyGuard(0.5)
    settling.mark_drawn(10.0)

    assert [settling.accepts_key(at) for at in (9.0, 10.3, 10.7, 11.1)] == [False, False, False, False]
    assert [settling.accepts_key(at) for at in (11.6, 11.7, 11.8)] == [True, True, True]


def test_another_question_begins_anew() -> None:
    """Whoever was answering one question has not answered the next one."""
    settling = KeyGuard(0.5)
    settling.mark_drawn(10.0)
    assert settling.accepts_key(11.0)

    settling.begin()
    settling.mark_drawn(11.1)

    assert not settling.accepts_key(11.2)
