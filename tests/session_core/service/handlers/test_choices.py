"""What there is to choose from: models with what keeps them away, and files by some letters of their paths."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
import trio

from session_core import limits
from session_core.agent.folder_settings import FolderUnusable
from session_core.assembly.setup import AgentEnvironment, open_setup
from session_core.config.problems import ConfigProblem
from session_core.errors import InvalidInput, NotFound
from session_core.ids import SessionId
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo, Prices
from session_core.providers.model_choice import ModelChoice
from session_core.service import file_finder
from session_core.service.config import ServiceConfig
from session_core.service.file_finder import FileFinder
from session_core.service.service import open_session_service
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider
from session_core.tools.paths_beneath import PathListing
from session_core.vocabulary.models import ListedModel, ModelPrices
from tests.session_core.service._extensions import FakeExtensions
from tests.session_core.service._helpers import new_session, scripted

GOOD = ModelInfo(
    name="a/good",
    provider="a",
    api_id="good",
    aliases=("g",),
    context_tokens=1000,
    max_output_tokens=100,
    prices=Prices(input=4, output=3, cache_read=2, cache_write=1),
    thinking="adaptive",
)
AWAY = ModelInfo(name="b/away", provider="b", api_id="away", images=False, described=False)


def with_models(**settings: object) -> ServiceConfig:
    models: dict[str, Provider] = {name: ScriptedProvider() for name in ("a/good", "demo", "house/one")}
    choices = (ModelChoice(info=GOOD), ModelChoice(info=AWAY, why_not="set B_KEY"))
    return scripted(models=models, catalogue=choices, model_infos={"a/good": GOOD}, **settings)


async def test_models_are_listed_with_what_keeps_them_away() -> None:
    """The list has the catalogue first, then all else that can be switched to, and says what to do for the others."""
    async with open_checked_service(with_models(extensions=FakeExtensions())) as service:
        session_id = await new_session(service)
        listed = await service.list_models(session_id=session_id)
        assert "a/good" == listed.default
        assert listed.models == (
            ListedModel(
                name="a/good",
                provider="a",
                usable=True,
                aliases=("g",),
                context_tokens=1000,
                max_output_tokens=100,
                can_think=True,
                can_see=True,
                prices=ModelPrices(input=4, output=3, cache_read=2, cache_write=1),
            ),
            ListedModel(
                name="b/away",
                provider="b",
                usable=False,
                why_not="set B_KEY; this counts from the next start of the service on",
            ),
            ListedModel(name="demo", provider="demo", usable=True),
            ListedModel(
                name="house/one", provider="house", usable=False, why_not="nobody is logged in", title="The House Model"
            ),
        )
        assert listed.models == (await service.list_models(cwd="/")).models == (await service.list_models()).models


class OneFolder:
    """Folders of which one has a model of its own, known once it was read; another cannot be read."""

    has_files = True

    def __init__(self) -> None:
        self.read: list[str] = []

    def get_known(self, cwd: str) -> SimpleNamespace | None:
        if cwd not in self.read or cwd == "/broken":
            return None
        own = {"own/model": ScriptedProvider()} if cwd == "/own" else {}
        return SimpleNamespace(providers=own, infos={})

    async def load(self, cwd: str) -> SimpleNamespace | None:
        await trio.lowlevel.checkpoint()
        self.read.append(cwd)
        if cwd == "/broken":
            raise FolderUnusable([ConfigProblem(place="config.toml", key="model", what="is wrong")])
        return self.get_known(cwd)


async def test_a_folder_has_its_own_models() -> None:
    """Models that only one folder has are listed there and nowhere else, and a broken folder has all the others."""
    async with open_checked_service(with_models()) as service:
        service.change_defaults(lambda config: attrs.evolve(config, folders=cast(Any, OneFolder())))
        service.core.agent = attrs.evolve(
            service.core.agent,
            models=attrs.evolve(service.core.agent.models, folders=service.core.config.folders),
        )
        places = {
            cwd: [each.name for each in (await service.list_models(cwd=cwd)).models]
            for cwd in ("/own", "/other", "/broken")
        }
    everywhere = ["a/good", "b/away", "demo", "house/one"]
    assert {"/own": [*everywhere, "own/model"], "/other": everywhere, "/broken": everywhere} == places


async def test_what_is_usable_can_be_switched_to() -> None:
    """Every model that is listed as usable is taken by a switch, and one without a key is not."""
    async with open_checked_service(with_models()) as service:
        session_id = await new_session(service)
        for model in (await service.list_models()).models:
            if model.usable:
                await service.switch_model(session_id, model.name)
            else:
                with pytest.raises(NotFound):
                    await service.switch_model(session_id, model.name)


async def test_models_of_a_place_that_is_none_are_refused() -> None:
    """A session that is not there, a path that is none, and both at once are each refused by name."""
    async with open_checked_service(with_models()) as service:
        with pytest.raises(NotFound) as missing:
            await service.list_models(session_id=SessionId("ses_x"))
        with pytest.raises(InvalidInput) as relative:
            await service.list_models(cwd="here")
        with pytest.raises(InvalidInput) as both:
            await service.list_models(session_id=await new_session(service), cwd="/")
        assert ["session_id", "cwd", "cwd"] == [each.value.field for each in (missing, relative, both)]


async def test_a_whole_setup_lists_the_catalogue(tmp_path: Path) -> None:
    """With a key for one provider its models are usable, those of another say which variable to set."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir(mode=0o700)
    place = AgentEnvironment(
        home=tmp_path / "home", folder=str(tmp_path / "project"), environ={"ANTHROPIC_API_KEY": "sk-one"}
    )
    async with open_setup(place) as setup, open_session_service(setup.service) as service:
        listed = await service.list_models()
        by_name = {model.name: model for model in listed.models}
        assert by_name[listed.default].usable
        assert "sonnet" in by_name["anthropic/claude-sonnet-5-5"].aliases
        assert by_name["demo"].usable
        others = [model for model in listed.models if model.provider == "openai"]
        assert others
        assert all(not model.usable and model.why_not.startswith("set OPENAI_API_KEY;") for model in others)


async def test_files_are_found_best_first(tmp_path: Path) -> None:
    """Letters find the files and folders beneath the session's folder, so many as were asked for."""
    for path in ("src/core.py", "core/other.py", "encore.md"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("x", encoding="utf-8")
    async with open_checked_service(scripted(cwd=str(tmp_path))) as service:
        session_id = await new_session(service)
        found = await service.find_files(" core ", session_id=session_id)
        assert ("core/", "src/core.py", "encore.md", "core/other.py") == found.paths
        assert not found.truncated
        first = await service.find_files("core", session_id=session_id, limit=1)
        assert (("core/",), True) == (first.paths, first.truncated)
        assert () == (await service.find_files("zzz", session_id=session_id)).paths


@pytest.mark.parametrize(
    ("query", "limit", "field"), [("x" * 201, 50, "query"), ("\ud800", 50, "query"), ("x", 0, "limit")]
)
async def test_a_bad_question_about_files_is_refused(query: str, limit: int, field: str) -> None:
    """Queries that are too long or no text, and limits of no sense, are refused by name."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        with pytest.raises(InvalidInput) as refused:
            await service.find_files(query, session_id=session_id, limit=limit)
        assert field == refused.value.field


async def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    """Where the session's folder is no more, that is said."""
    async with open_checked_service(scripted(cwd=str(tmp_path / "gone"))) as service:
        with pytest.raises(NotFound, match="cannot be read"):
            await service.find_files("x", session_id=await new_session(service))


@attrs.define
class Walks:
    """Stands for the walk: counts, and can be held up."""

    going_on: trio.Event = attrs.field(factory=trio.Event)
    begun: list[str] = attrs.field(factory=list)

    async def __call__(self, folder: str, hidden: tuple[str, ...] = ()) -> PathListing:
        self.begun.append(folder)
        await self.going_on.wait()
        return PathListing(paths=("one.py",), cut=False)


async def test_a_walk_is_not_begun_again_because_of_other_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often others ask about another folder meanwhile, those who ask about one share its walk."""
    walks, finder = Walks(), FileFinder()
    monkeypatch.setattr(file_finder, "paths_beneath", walks)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            for folder in ("/a", "/b"):
                nursery.start_soon(finder.find, folder, "one", 5)
                await trio.testing.wait_all_tasks_blocked()
        walks.going_on.set()
    assert ["/a", "/b"] == walks.begun


async def test_a_folder_is_walked_once_for_all_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who ask meanwhile, or shortly after, share one walk; whoever asks later gets a new one."""
    walks, finder = Walks(), FileFinder()
    monkeypatch.setattr(file_finder, "paths_beneath", walks)
    answers: list[tuple[tuple[str, ...], bool]] = []

    async def ask() -> None:
        answers.append(await finder.find("/a", "one", 5))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        walks.going_on.set()
    await ask()
    assert ([(("one.py",), False)] * 4, ["/a"]) == (answers, walks.begun)
    monkeypatch.setattr(limits, "FOUND_FRESH_MS", -1)
    await ask()
    assert ["/a", "/a"] == walks.begun


async def test_who_waits_walks_when_the_first_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that is cancelled in its walk leaves the folder to the next, who gets the whole answer."""
    walks, finder = Walks(), FileFinder()
    monkeypatch.setattr(file_finder, "paths_beneath", walks)
    answers: list[tuple[str, ...]] = []

    async def ask() -> None:
        answers.append((await finder.find("/a", "", 5))[0])

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as first:
            async with trio.open_nursery() as inner:
                inner.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                first.cancel()
        walks.going_on.set()
    assert ([("one.py",)], ["/a", "/a"]) == (answers, walks.begun)


async def test_few_folders_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of more folders than a few are not held in memory at once."""
    walks, finder = Walks(), FileFinder()
    walks.going_on.set()
    monkeypatch.setattr(file_finder, "paths_beneath", walks)
    for number in range(limits.MAX_FOUND_FOLDERS + 3):
        await finder.find(f"/{number}", "", 5)
    assert limits.MAX_FOUND_FOLDERS == len(finder._folders)
