"""Signals while a program starts, and after it."""

import os
import signal

import trio
from trio.testing import wait_all_tasks_blocked

from frontends.shared.signals import EXIT_SIGNAL, cancel_on_signal


async def test_the_next_reader_may_begin_once_the_start_is_over() -> None:
    """A signal after the start reaches whoever reads next, at once, and does not cancel the block."""
    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        async with cancel_on_signal(signals) as start:
            await wait_all_tasks_blocked()
            await start.finish_starting()
            os.kill(os.getpid(), signal.SIGUSR1)
            assert signal.SIGUSR1 == await anext(signals)

    assert start.exit_code is None


async def test_a_signal_during_the_start_ends_it() -> None:
    """The block is cancelled, and the exit code tells of the signal."""
    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        async with cancel_on_signal(signals) as start:
            os.kill(os.getpid(), signal.SIGUSR1)
            await trio.Event().wait()

    assert EXIT_SIGNAL + signal.SIGUSR1 == start.exit_code
