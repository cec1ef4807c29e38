"""Where answers come from: each provider turns one `ModelRequest` into a stream of events.

- `base`: the `Provider` protocol, the request, and the events an answer consists of
- `demo`: an offline model that streams, calls harmless tools and can fail on demand
- `anthropic`, `anthropic_stream`: models behind Anthropic's Messages interface: the question, and reading the answer
- `openai_chat`, `openai_chat_stream`, `openai_responses`, `openai_common`: models behind the two interfaces of OpenAI
  and all who copy them
- `conversation`: makes any conversation fit for the strict interfaces; every provider begins with it
- `tool_names`: names of tools that every interface takes, one for each tool of a request, and the way back
- `endpoint`, `timeouts`, `http`: the address, key, bounds and patience of a provider, and one call to it as a stream
- `sse`: server-sent events from bytes, without I/O
- `failures`: statuses, headers, bodies and errors become a `ModelFailed`; `secrets`: keys that do not show themselves
- `catalogue`: which models there are, what they can do and what they cost; `choose`: the provider of a chosen model

What comes in: the messages so far, the tools on offer, and the name of a model. What goes out: chunks of thinking,
text and tool calls, then exactly one `ModelFinished` or `ModelFailed`. A failure of a model is an event like any other;
the only exception that leaves a provider is `Cancelled`, and leaving its context at any moment ends the call.

Not its business: retrying (that is the turn's decision, helped by `RETRYABLE`), running tools, keeping the
conversation, and who is watching. A provider knows no session.

To add a provider: a pure function that builds the request from `conversation.prepare`, a decoder without I/O that takes
`SseEvent`s, and a class whose `stream` hands both to `http.stream_answer`. Its tests play the checks of `_contract.py`,
recorded streams cut at every byte, and the misbehaviour of the replay server.
"""
