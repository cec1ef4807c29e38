"""Files that go along with a prompt, and answers of a given shape."""

import base64
import json
from pathlib import Path

import pytest
import trio.testing

import session_core as sc
from frontends.commands.run.options import InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared import attachments
from frontends.shared.attachments import PromptAttachments, read_attachments, read_schema
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import dump_json
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import NoSignals, Paper, config, written

PNG = b"\x89PNG\r\n\x1a\n tiny"
IMAGES = {"image/png": PNG, "image/jpeg": b"\xff\xd8\xff x", "image/gif": b"GIF89a x", "image/webp": b"RIFF0000WEBP x"}
SCHEMA = {"type": "object", "properties": {"bugs": {"type": "integer"}}, "required": ["bugs"]}


def test_texts_and_images(tmp_path: Path) -> None:
    """Images are known by their first bytes whatever they are called; everything else is text, under its own name."""
    paths = []
    for number, data in enumerate(IMAGES.values()):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(data)
        paths.append(str(path))
    note = tmp_path / "note.png"
    note.write_bytes("\ufeffgrün".encode())
    attached = read_attachments([*paths, str(note)])

    assert list(IMAGES) == [each.media_type for each in attached.images]
    assert PNG == base64.b64decode(attached.images[0].data)
    assert (sc.FilePart(name=str(note), text="grün"),) == attached.files


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff\xfe\x00", "is neither UTF-8 text nor a PNG, JPEG, GIF or WebP image"),
        (b"a\0b", "is not text: there are zero bytes in it"),
        (b"x" * 101, "is too large; the limit is 100 bytes"),
    ],
)
def test_what_cannot_be_attached(tmp_path: Path, data: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that no model could read is refused by its name, before anything is sent."""
    monkeypatch.setattr(attachments, "MAX_IMAGE_BYTES", 100)
    path = tmp_path / "file"
    path.write_bytes(data)

    with pytest.raises(UsageError, match="--file: ") as refused:
        read_attachments([str(path)])
    assert sentence in str(refused.value)


def test_too_much_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are counted together: their number, their text, their images."""
    text, image = tmp_path / "a", tmp_path / "b"
    text.write_text("x" * 60, encoding="utf-8")
    image.write_bytes(PNG)
    monkeypatch.setattr(attachments, "MAX_TEXT_CHARS", 100)
    monkeypatch.setattr(attachments, "MAX_IMAGES_BYTES", 20)

    with pytest.raises(UsageError, match="the texts have 120 characters together"):
        read_attachments([str(text), str(text)])
    with pytest.raises(UsageError, match="the images total 26 bytes"):
        read_attachments([str(image), str(image)])
    with pytest.raises(UsageError, match="at most 32 files"):
        read_attachments([str(text)] * 33)


@pytest.mark.parametrize(
    ("text", "reason"), [("[1]", "expected an object"), ("{", "not JSON"), ('{"a":1,"a":2}', "twice")]
)
def test_what_is_no_schema(tmp_path: Path, text: str, reason: str) -> None:
    """What is not a JSON object is refused with the reason."""
    path = tmp_path / "schema.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(UsageError, match=f"is not a JSON schema: .*{reason}"):
        read_schema(str(path))


async def test_files_reach_the_model(autojump_clock: trio.testing.MockClock) -> None:
    """What was attached goes to the model together with the prompt."""
    provider = scripted.ScriptedProvider(scripted.text("ok"))
    file, image = sc.FilePart(name="a.log", text="x"), sc.ImagePart(media_type="image/png", data="AAAA")
    options = RunOptions(prompt="look", attached=PromptAttachments(files=(file,), images=(image,)))
    async with open_checked_service(config(provider)) as service:
        code = await converse(service, options, StandardStreams(out=Paper(), err=Paper()), NoSignals())

    assert (0, (sc.TextPart(text="look"), file, image)) == (code, provider.requests[0].messages[0].parts)


@pytest.mark.parametrize("quiet", [False, True])
async def test_an_answer_of_a_shape(
    quiet: bool,  # noqa: FBT001 - given by parametrize
    autojump_clock: trio.testing.MockClock,
) -> None:
    """With a schema stdout holds the JSON of the last answer alone; what was said on the way goes elsewhere."""
    provider = scripted.ScriptedProvider(
        (sc.TextChunk(text="I look."), *scripted.tool_call("look")), scripted.text('```json\n{"bugs": 2}\n```')
    )
    streams = StandardStreams(out=Paper(), err=Paper())
    options = RunOptions(
        prompt="count",
        output_schema=sc.JsonObject(SCHEMA),
        interaction=InteractionOptions(quiet=quiet, structured=True),
    )
    async with open_checked_service(config(provider, scripted.ScriptedTool("look"))) as service:
        code = await converse(service, options, streams, NoSignals())

    out, err = written(streams)
    assert (0, '{"bugs": 2}\n') == (code, out)
    assert quiet == (err == "")


async def test_an_answer_of_a_shape_has_lines_of_its_own(autojump_clock: trio.testing.MockClock) -> None:
    """On a terminal, where both outputs are one, what was said on the way ends its line before the JSON begins."""
    paper = Paper()
    provider = scripted.ScriptedProvider(scripted.text('{"bugs": 2}'))
    options = RunOptions(
        prompt="count", output_schema=sc.JsonObject(SCHEMA), interaction=InteractionOptions(structured=True)
    )
    async with open_checked_service(config(provider)) as service:
        await converse(service, options, StandardStreams(out=paper, err=paper), NoSignals())

    assert ['{"bugs": 2}', '{"bugs": 2}'] == paper.text.splitlines()[:2]


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize(("last", "code", "printed"), [('{"bugs": 3}', 0, '{"bugs": 3}\n'), ("none", 5, "")])
async def test_rejected_tries_are_no_answer(
    last: str,
    code: int,
    printed: str,
    quiet: bool,  # noqa: FBT001 - given by parametrize
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What does not have the shape never reaches stdout, not even as the last word of a turn that fails."""
    tries = ("two bugs", '{"bugs": "two"}', last)
    streams = StandardStreams(out=Paper(), err=Paper())
    options = RunOptions(
        prompt="count",
        output_schema=sc.JsonObject(SCHEMA),
        interaction=InteractionOptions(quiet=quiet, structured=True),
    )
    async with open_checked_service(config(scripted.ScriptedProvider(*map(scripted.text, tries)))) as service:
        ended = await converse(service, options, streams, NoSignals())

    assert (code, printed) == (ended, written(streams)[0])


async def test_a_shape_that_makes_no_sense(autojump_clock: trio.testing.MockClock) -> None:
    """A schema that cannot be used is refused, and no empty session stays behind."""
    options = RunOptions(
        prompt="count", output_schema=sc.JsonObject({"type": 7}), interaction=InteractionOptions(structured=True)
    )
    async with open_checked_service(config(scripted.ScriptedProvider())) as service:
        with pytest.RaisesGroup(sc.InvalidInput):
            await converse(service, options, StandardStreams(out=Paper(), err=Paper()), NoSignals())
        assert () == (await service.list_sessions()).sessions


def test_json_that_steers_no_terminal() -> None:
    """The JSON means the same and holds nothing but printable ASCII."""
    output = sc.JsonObject({"a": ("\x1b[31m", "\u202e", sc.JsonObject({"b": None}))})
    text = dump_json(output, default=dict)

    assert {"a": ["\x1b[31m", "\u202e", {"b": None}]} == json.loads(text)
    assert text.isascii()
    assert text.isprintable()
