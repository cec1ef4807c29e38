"""Models as people choose among them."""

import attrs


@attrs.frozen(kw_only=True)
class ModelPrices:
    """What a million tokens cost, in millionths of a dollar."""

    input: int
    output: int
    cache_read: int
    cache_write: int


@attrs.frozen(kw_only=True)
class ListedModel:
    """A model that there is.

    Attributes:
        name: What sessions call it.
        provider: Who has it.
        usable: Whether `SwitchModel` takes it and it has what it needs, such as a key.
        why_not: If not, a sentence that says what to do.
        title: What its provider shows people instead of the name; mostly nothing.
        aliases: Shorter names that people know it by. Commands take the name.
        context_tokens: How much it reads and writes in one call; none if nobody knows.
        max_output_tokens: The longest answer, likewise.
        can_think: Whether it can reason beforehand.
        can_see: Whether it can look at pictures.
        prices: None where nobody knows them.
        retires: The day it is switched off, as in 2027-01-31, if that has been announced.
    """

    name: str
    provider: str
    usable: bool
    why_not: str = ""
    title: str = ""
    aliases: tuple[str, ...] = ()
    context_tokens: int | None = None
    max_output_tokens: int | None = None
    can_think: bool = False
    can_see: bool = False
    prices: ModelPrices | None = None
    retires: str | None = None
