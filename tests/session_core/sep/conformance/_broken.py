"""Extensions that are broken in one place each, made from the one that is whole; and where that must show."""

import sys
from pathlib import Path

import attrs

SUBJECTS = Path(__file__).with_name("_subjects")
WHOLE = SUBJECTS / "subject.py"


@attrs.frozen(kw_only=True)
class Broken:
    """One fault.

    Attributes:
        place: What stands in the whole one, once.
        fault: What stands there instead.
        more: Further places, where one alone would not do.
        hangs: It leaves something unanswered, so the check waits in vain.
        steps: The steps that fail of it, all of them.
        says: What the first of these must tell the author.
    """

    name: str
    place: str
    fault: str
    steps: tuple[str, ...]
    says: str
    more: tuple[tuple[str, str], ...] = ()
    hangs: bool = False

    def source(self) -> str:
        """Return the broken extension."""
        source = WHOLE.read_text(encoding="utf-8")
        for place, fault in ((self.place, self.fault), *self.more):
            assert source.count(place) == 1, f"{self.name}: {place!r} must stand there once"
            source = source.replace(place, fault)
        return source


def in_folder(folder: Path, source: str) -> Path:
    """Put an extension into a folder of its own, with its manifest."""
    folder.mkdir(parents=True)
    (folder / "subject.py").write_text(source, encoding="utf-8")
    (folder / "extension.toml").write_text(
        f'name = "subject"\nversion = "1.0"\n[run]\ncommand = "{sys.executable}"\nargs = ["-I", "-S", "subject.py"]\n',
        encoding="utf-8",
    )
    return folder


_REPLY = '    send({"id": number, **reply})\n'
_PING = '    if method in {"ping", "shutdown"}:\n'
_MISSING = 'tool echo without the required argument "text"'
_IN_A_THREAD = "        threading.Thread(target=answer, args=(number, method, params), daemon=True).start()\n"

BROKEN = (
    Broken(
        name="replies twice",
        place=_REPLY,
        fault=_REPLY + '    if method == "hook":\n        send({"id": number, **reply})\n',
        steps=("cancellation of hook", "24 requests at once", "replies"),
        says="it answered a cancelled request twice",
    ),
    Broken(
        name="answers under another id",
        hangs=True,
        place=_REPLY,
        fault='    send({"id": number if method != "hook" else str(number), **reply})\n',
        steps=("hook tool_call", "cancellation of hook", "24 requests at once", "replies"),
        says="it did not answer hook within",
    ),
    Broken(
        name="never answers a ping",
        hangs=True,
        place='    elif "id" in message:\n',
        fault='    elif "id" in message and method != "ping":\n',
        steps=("ping",),
        says="it did not answer ping within",
    ),
    Broken(
        name="result without content",
        place='    return {"content": text}\n',
        fault='    return {"text": text}\n',
        steps=("tool echo",),
        says='its answer to tool/execute does not fit the protocol: "content" is a required property',
    ),
    Broken(
        name="content as a list of parts",
        place='    return {"content": text}\n',
        fault='    return {"content": [{"type": "text", "text": text}]}\n',
        steps=("tool echo",),
        says='is not of type "string"',
    ),
    Broken(
        name="hook outcome of an unknown action",
        place='    return {"action": "continue"}\n',
        fault='    return {"action": "allow"}\n',
        steps=("hook tool_call",),
        says="its answer to hook does not fit the protocol: action:",
    ),
    Broken(
        name="modifies without a patch",
        place='    return {"action": "continue"}\n',
        fault='    return {"action": "modify"}\n',
        steps=("hook tool_call",),
        says='"patch" is a required property',
    ),
    Broken(
        name="prints to stdout",
        place="def decide(params: dict[str, Any]) -> dict[str, Any]:\n",
        fault='def decide(params: dict[str, Any]) -> dict[str, Any]:\n    print("deciding", flush=True)\n',
        steps=("stdout",),
        says='it wrote a line that is not a message to stdout ("deciding")',
    ),
    Broken(
        name="dies of a line that is not JSON",
        place="    except ValueError:\n        return {}\n",
        fault="    except UnicodeError:\n        return {}\n",
        steps=(
            "bad input: a blank line",
            "bad input: a line of blanks",
        ),
        says="it said: json.decoder.JSONDecodeError",
    ),
    Broken(
        name="dies of an unknown method",
        place='    raise Refused(-32601, "there is no such method")\n',
        fault="    raise KeyError(method)\n",
        steps=("unknown method",),
        says="its process ended with exit status 1, and conformance/never_heard_of was not answered",
    ),
    Broken(
        name="takes an unknown method for done",
        place='    raise Refused(-32601, "there is no such method")\n',
        fault="    return {}\n",
        steps=("unknown method",),
        says="answer with the error -32601",
    ),
    Broken(
        name="ignores shutdown",
        hangs=True,
        place='        if method == "shutdown":\n            sys.exit(0)\n',
        fault="        pass\n",
        steps=("shutdown",),
        says="it still ran 5 s after its answer to shutdown: clean up and exit",
    ),
    Broken(
        name="exits with another code",
        place="            sys.exit(0)\n",
        fault="            sys.exit(3)\n",
        steps=("shutdown",),
        says="its process ended with exit status 3 after its answer to shutdown: exit with code 0",
    ),
    Broken(
        name="outlives the end of its input",
        hangs=True,
        place="    take(read(received))\n",
        fault="    take(read(received))\nthreading.Event().wait()\n",
        steps=("end of input",),
        says="it still ran 5 s after the end of its input",
    ),
    Broken(
        name="registers tools without parameters",
        place='"description": "say it again",\n',
        fault='"describes": "say it again",\n',
        steps=("handshake",),
        says='registrations.tools[0]: "description" is a required property',
    ),
    Broken(
        name="registers hooks as a text",
        place='    "hooks": ["tool_call"],\n',
        fault='    "hooks": "tool_call",\n',
        steps=("handshake",),
        says='registrations.hooks: "tool_call" is not of type "array"',
    ),
    Broken(
        name="speaks version 99",
        place='        version = min(params["protocol_version"], 1)\n',
        fault="        version = 99\n",
        steps=("handshake", "later version"),
        says="it answered with protocol_version 99 where the host offered 1",
    ),
    Broken(
        name="takes every version that it is offered",
        place='        version = min(params["protocol_version"], 1)\n',
        fault='        version = params["protocol_version"]\n',
        steps=("later version",),
        says="it answered with protocol_version 99 where the host offered 99: answer with the lower one",
    ),
    Broken(
        name="calls itself something else",
        place='NAME = "subject"\n',
        fault='NAME = "another"\n',
        steps=("handshake",),
        says='it calls itself "another", and its manifest calls it "subject"',
    ),
    Broken(
        name="dies of an unknown event",
        place="def hear_event(params: dict[str, Any]) -> None:\n",
        fault=(
            'def hear_event(params: dict[str, Any]) -> None:\n    {"turn_end": 1, "events_lost": 2}[params["event"]]\n'
        ),
        steps=("unknown event",),
        says="it said: KeyError: 'conformance/never_heard_of'",
    ),
    Broken(
        name="never answers what was cancelled",
        hangs=True,
        place='        raise Refused(-32800, "cancelled")\n',
        fault="        sys.exit()\n",
        steps=("cancellation of tool/execute",),
        says="it never answered a request that was cancelled",
    ),
    Broken(
        name="answers a cancellation with another code",
        place='        raise Refused(-32800, "cancelled")\n',
        fault='        raise Refused(-32603, "stopped")\n',
        steps=("cancellation of tool/execute",),
        says='it answered a cancelled request with "stopped" (-32603): the code is -32800',
    ),
    Broken(
        name="waits for an answer that it does not read",
        hangs=True,
        place='    elif method in {"tool/execute", "command/execute"}:\n',
        fault='    elif method == "tool/execute":\n',
        steps=(
            "command greet",
            "command greet without arguments",
            "cancellation of command/execute",
            "24 requests at once",
            "while it waits",
        ),
        says="it did not answer command/execute within",
    ),
    Broken(
        name="loses what comes while it waits",
        hangs=True,
        place=_IN_A_THREAD,
        fault="        answer(number, method, params)\n",
        more=(
            (
                "    return answers.get()\n",
                (
                    "    while True:\n"
                    "        heard = read(sys.stdin.buffer.readline())\n"
                    '        if heard.get("id") == number:\n'
                    "            return heard\n"
                ),
            ),
        ),
        steps=("24 requests at once", "while it waits"),
        says="requests that were sent at once were not answered",
    ),
    Broken(
        name="crashes without an argument",
        place='    text = params["arguments"].get("text")\n',
        fault=(
            '    text = params["arguments"].get("text")\n'
            '    if "text" not in params["arguments"]:\n        __import__("os")._exit(7)\n'
        ),
        steps=(_MISSING,),
        says="its process ended with exit status 7, and tool/execute was not answered",
    ),
    Broken(
        name="completes with bare texts",
        place='[{"value": "somebody", "description": "anybody"}]',
        fault='["somebody"]',
        steps=("completion of greet",),
        says='does not fit the protocol: completions[0]: "somebody" is not of type "object"',
    ),
    Broken(
        name="streams pieces of an unknown kind",
        place='"event": {"type": "Delta", "content": "Hel"}',
        fault='"event": {"type": "text", "delta": "Hel"}',
        steps=("provider parrot", "messages"),
        says='a provider/delta does not fit the protocol: event.type: "text" is not one of',
    ),
    Broken(
        name="logs at an unknown level",
        place='"level": "debug"',
        fault='"level": "warning"',
        steps=("messages",),
        says='the params of its log do not fit the protocol: level: "warning" is not one of',
    ),
    Broken(
        name="asks for what no host knows",
        place='    ask("kv/set", {"key": "last", "value": text})\n',
        fault='    ask("kv/put", {"key": "last", "value": text})\n',
        steps=("messages",),
        says='it sent "kv/put", which is not a method of the protocol',
    ),
    Broken(
        name="makes up a context",
        place='"context": params["context"], "text"',
        fault='"context": {"token": "epoch-1", "tier": "command"}, "text"',
        steps=("contexts",),
        says="it sent session/send_message with a context that it was never given",
    ),
    Broken(
        name="makes an event a command",
        place="def hear_event(params: dict[str, Any]) -> None:\n",
        fault=(
            "def hear_event(params: dict[str, Any]) -> None:\n"
            '    forged = {**params["context"], "tier": "command"}\n'
            '    send({"id": f"e{next(numbers)}", "method": "session/state", "params": {"context": forged}})\n'
        ),
        steps=("contexts",),
        says="it sent session/state with a context whose tier was 'event'",
    ),
    Broken(
        name="writes a line without end",
        place='    return {"completions": [{"value": "somebody", "description": "anybody"}]}\n',
        fault='    tell("log", {"level": "info", "message": "x" * 17_000_000})\n    return {}\n',
        steps=("stdout",),
        says="which is more than a host takes",
    ),
    Broken(
        name="speaks without a version",
        place='        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")\n',
        fault='        sys.stdout.write(json.dumps(message) + "\\n")\n',
        steps=("messages",),
        says='every message must hold "jsonrpc": "2.0"',
    ),
    Broken(
        name="cannot read a long line",
        place="    take(read(received))\n",
        fault="    take(read(received)) if len(received) < 65_536 else sys.exit(1)\n",
        steps=("large message",),
        says="it cannot read a line of 1,048,576 characters",
    ),
    Broken(
        name="dies before it is greeted",
        place='    if method == "initialize":\n',
        fault=(
            '    if method == "initialize":\n        cancelled.add("greeted")\n'
            '    if "greeted" not in cancelled:\n        sys.exit(5)\n    if method == "initialize":\n'
        ),
        steps=("request before initialize",),
        says="it ended when it was asked something before initialize: its process ended with exit status 5",
    ),
)

SLOW_TO_HEAR = Broken(
    name="answers in one order only",
    place=_IN_A_THREAD,
    fault="        answer(number, method, params)\n",
    more=(
        (
            "    return answers.get()\n",
            (
                "    while True:\n"
                "        heard = read(sys.stdin.buffer.readline())\n"
                '        if heard.get("id") == number and "method" not in heard:\n'
                "            return heard\n"
                "        later.append(heard)\n"
            ),
        ),
        ("    take(read(received))\n", "    take(read(received))\n    while later:\n        take(later.pop(0))\n"),
        ("cancelled: set[Any] = set()\n", "cancelled: set[Any] = set()\nlater: list[dict[str, Any]] = []\n"),
    ),
    steps=(),
    says="",
)
"""Not a fault, but worth a word: it answers what comes while it waits, though only afterwards."""

TRUSTING = Broken(
    name="trusts its host",
    place='    if params["tool"] != "echo":\n        return {"content": "there is no such tool", "is_error": True}\n',
    fault="",
    more=(
        (
            (
                "    if not isinstance(text, str):\n"
                '        return {"content": "text must be a text", "is_error": True}\n'
                '    tell("tool/update"'
            ),
            '    tell("tool/update"',
        ),
        ('    return {"content": text}\n', '    return {"content": text or ""}\n'),
        (
            (
                "    try:\n        message = json.loads(line)\n    except ValueError:\n        return {}\n"
                "    return message if isinstance(message, dict) else {}\n"
            ),
            (
                "    message: dict[str, Any] = json.loads(line) if line.strip() else {}\n    message.keys()\n"
                "    return message\n"
            ),
        ),
        (
            "            waiting.pop(number).put(message)\n",
            (
                "            waiting.pop(number).put(message)\n"
                '        else:\n            send({"id": number, "error": {"code": -32601, "message": "unknown"}})\n'
            ),
        ),
    ),
    steps=(
        'tool echo without the required argument "text"',
        'tool echo with an argument "text" of the wrong type',
        "tool that does not exist",
        "bad input: a line that is not JSON",
        "bad input: half a message",
        "bad input: a bare null",
        "bad input: a bare number",
        "bad input: a bare string",
        "bad input: a list",
        "bad input: a batch",
        "bad input: bytes that are not UTF-8",
        "replies",
    ),
    says="",
)
"""Nothing that a host depends on, but not robust: it checks nothing that no host sends. Its steps are the advice."""
