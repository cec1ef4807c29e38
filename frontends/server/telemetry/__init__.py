"""OpenTelemetry, on request: a span for each turn, model call and tool call of a running service.

| module | holds |
| --- | --- |
| `spans` | `SpanTracker`: from events to the beginnings and ends of spans; no I/O, and nothing of OpenTelemetry |
| `availability` | whether telemetry is wanted: `--telemetry`, or the variables that all such programs know |
| `exporter` | `open_telemetry`: the SDK, sending from a thread of its own; the only module that imports it |

Nothing here can block the service: a slow reader misses events, which is counted, and spans that cannot be sent are
dropped. Spans name models, tools and states, and count tokens. They contain no texts, arguments, results or error
messages.
"""
