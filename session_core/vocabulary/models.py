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
    """A known model.

    Attributes:
        name: Its name in sessions.
        provider: The provider that offers it.
        usable: Whether `SwitchModel` accepts it and it has what it needs, such as a key.
        why_not: If not usable, a sentence that says what to do.
        title: A display name from its provider, shown instead of the name; usually empty.
        aliases: Shorter names that people know it by. Commands take the name.
        context_tokens: How much it reads and writes in one call; None if unknown.
        max_output_tokens: The longest answer; None if unknown.
        can_think: Whether it can reason before it answers.
        can_see: Whether it accepts images.
        prices: None if unknown.
        retires: The announced shutdown day, such as 2027-01-31, if there is one.
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
