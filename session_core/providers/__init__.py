"""Model providers: each turns one `ModelRequest` into a stream of events.

- `base`: the `Provider` protocol, the request, and the events an answer consists of
- `demo`: an offline model that streams, calls harmless tools and can fail on demand
- `anthropic`, `anthropic_stream`: models behind Anthropic's Messages API: building requests, and decoding answers
- `openai_chat`, `openai_chat_stream`, `openai_responses`, `openai_common`: models behind the two APIs of OpenAI and
  compatible servers
- `conversation`: converts any conversation to the form that strict APIs accept; every provider begins with it
- `tool_names`: unique tool names that every API accepts, and the mapping back
- `endpoint`, `timeouts`, `http`: the address, key, limits and timeouts of a provider, and one call to it as a stream
- `sse`: server-sent events from bytes, without I/O
- `failures`: turns statuses, headers, bodies and errors into a `ModelFailed`; `secrets`: keys that never print
- `catalogue`: the models, their abilities and prices; `model_choice`: the provider of a chosen model

Input: the messages so far, the available tools, and the name of a model. Output: chunks of thinking, text and tool
calls, then exactly one `ModelFinished` or `ModelFailed`. A failure of a model is an event like any other; the only
exception that leaves a provider is `Cancelled`, and leaving its context at any moment ends the call.

Out of scope: retrying (the turn decides, using `RETRYABLE`), running tools, keeping the conversation, and who is
watching. A provider knows no session.

To add a provider: write a pure function that builds the request from `conversation.prepare_conversation`, a decoder
without I/O that takes `SseEvent`s, and a class whose `stream` passes both to `http.stream_answer`. Its tests run the
checks of `_contract.py`, recorded streams cut at every byte, and the misbehaviour of the replay server.
"""
