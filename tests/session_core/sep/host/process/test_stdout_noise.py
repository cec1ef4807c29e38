"""What an extension prints on its stdout goes to its log, and a flood of it does not drown the rest."""

from session_core import limits
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.process import StdoutNoise


class Clock:
    """A time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


def noted(log: ExtensionLog) -> list[str]:
    """What the log holds, all of it from stdout."""
    assert {"stdout"} >= {line.source for line in log.lines()}
    return [line.text for line in log.lines()]


def test_text_is_noted_as_it_is_and_a_broken_message_with_the_reason() -> None:
    """What was meant for people stands there as it was printed; what looks like a message says why it is none."""
    log = ExtensionLog()
    noise = StdoutNoise(log, now=Clock())
    noise.add_line(b"  hello \xff there\r", "not a JSON object")
    noise.add_line(b' {"id": 1}', "neither method, result nor error is there")
    noise.add_line(b"\x1b[2Jcleared", "not a JSON object")
    noise.finish()

    assert [
        "hello \N{REPLACEMENT CHARACTER} there",
        'not a message (neither method, result nor error is there): {"id": 1}',
        "\N{REPLACEMENT CHARACTER}[2Jcleared",
    ] == noted(log)


def test_a_flood_is_counted() -> None:
    """Of many lines in one second the first are noted, and how many more there were when the next ones come."""
    log, clock = ExtensionLog(), Clock()
    noise = StdoutNoise(log, now=clock)
    most = limits.EXTENSION_NOISE_LINES
    for number in range(most + 10):
        noise.add_line(b"%d" % number, "not a JSON object")
    clock.now += 0.9
    noise.add_line(b"still too much", "not a JSON object")
    assert [str(number) for number in range(most)] == noted(log)
    clock.now += 0.1
    noise.add_line(b"after a while", "not a JSON object")
    noise.finish()
    assert ["... and 11 similar lines", "after a while"] == noted(log)[most:]


def test_the_end_tells_what_was_left_out() -> None:
    """What was left out last is told at the end, once."""
    log = ExtensionLog()
    noise = StdoutNoise(log, now=Clock())
    for _ in range(limits.EXTENSION_NOISE_LINES + 1):
        noise.add_line(b"x", "not a JSON object")
    noise.finish()
    noise.finish()

    assert ["x", "... and 1 similar line"] == noted(log)[-2:]
