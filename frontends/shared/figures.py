"""How times, lengths of time, counts, sizes, paths and costs are written. Pure functions; the time is an argument."""

from datetime import UTC, datetime
from pathlib import Path

import session_core as sc

_MINUTE, _HOUR, _DAY = 60_000, 3_600_000, 86_400_000
_UNITS = ("KB", "MB", "GB", "TB")


def format_ago(time_ms: int, now: int) -> str:
    """Format how long ago something was: just now, 3 min ago, 2 h ago, 5 days ago, and the date after a month."""
    past = now - time_ms
    if past < _MINUTE:
        return "just now"  # also for clocks that went back
    if past < _HOUR:
        return f"{past // _MINUTE} min ago"
    if past < _DAY:
        return f"{past // _HOUR} h ago"
    days = past // _DAY
    if days == 1:
        return "1 day ago"
    return f"{days} days ago" if days <= 30 else f"{local_time(time_ms):%Y-%m-%d}"


def clock_time(time_ms: int, now: int) -> str:
    """Return the time of day, with the date if it is not today."""
    then = local_time(time_ms)
    return f"{then:%H:%M}" if then.date() == local_time(now).date() else f"{then:%Y-%m-%d %H:%M}"


def local_time(time_ms: int) -> datetime:
    """Turn milliseconds into a time of this machine's zone."""
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC).astimezone()


def duration(milliseconds: float) -> str:
    """Return a length of time for people: 0.4 ms, 12 ms, 3.4 s, 2 min 5 s."""
    if milliseconds < 10:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds} s"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: 1 step, 2 steps."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def format_size(count: int) -> str:
    """Format a number of bytes: 512 bytes, 1.5 KB, 20 MB."""
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    amount, unit = count / 1000, 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if amount < 9.95 else f"{amount:,.0f} {_UNITS[unit]}"


def format_path(path: str, home: Path | None = None) -> str:
    """Return a path as its user would write it, with ~ for the home directory."""
    try:
        return "/".join(("~", *Path(path).relative_to(home or Path.home()).parts))
    except (ValueError, RuntimeError):  # outside of the home directory, or there is none
        return path


def dollars(micros: int, digits: int | None = None) -> str:
    """Format millionths of a dollar: $0.0042, $1.25, or less than the smallest amount; `digits` of the fraction."""
    if 0 < micros < 100:
        return "under $0.0001"
    amount = micros / 1_000_000
    return f"${amount:,.{digits or (4 if amount < 0.1 else 2)}f}"


def format_tokens(count: int) -> str:
    """Format a number of tokens for reading at a glance: 980, 1.2k, 131k, 1.05M."""
    if count < 1_000:
        return str(count)
    if count < 1_000_000:
        return f"{_shorten(count / 1_000, 1)}k" if count < 100_000 else f"{count // 1_000}k"
    return f"{_shorten(count / 1_000_000, 2)}M"


def _shorten(amount: float, digits: int) -> str:
    return f"{amount:.{digits}f}".rstrip("0").rstrip(".")


def usage_figures(usage: sc.Usage) -> list[str]:
    """Describe a model's usage and cost, as far as reported: a stopped model reports none."""
    figures = []
    about = "about " if usage.estimated else ""
    if usage.tokens:
        cached = f" ({usage.cache_read_tokens:,} cached)" if usage.cache_read_tokens else ""
        figures.append(f"{about}{usage.tokens - usage.output_tokens:,} tokens in{cached}, {usage.output_tokens:,} out")
    if usage.cost_micros:
        figures.append(about + dollars(usage.cost_micros))
    return figures
