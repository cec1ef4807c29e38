"""Where answers come from: each provider turns one `ModelRequest` into a stream of events.

- `base`: the `Provider` protocol, the request, and the events an answer consists of
- `demo`: an offline model that streams, calls harmless tools and can fail on demand

What comes in: the messages so far, the tools on offer, and the name of a model. What goes out: chunks of thinking,
text and tool calls, then exactly one `ModelFinished` or `ModelFailed`. A failure of a model is an event like any other;
the only exception that leaves a provider is `Cancelled`, and leaving its context at any moment ends the call.

Not its business: retrying (that is the turn's decision, helped by `RETRYABLE`), running tools, keeping the
conversation, and who is watching. A provider knows no session.

To add a provider: write one class with a `stream` method, and let its tests play the checks that the demo's tests play:
one end per answer, and no harm when it is abandoned or cancelled at any step.
"""
