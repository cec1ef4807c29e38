"""When conversations are summarised, and by whom."""

import attrs

from session_core.agent.compaction import Compactor, Summary, SummaryFailed, summarise_conversation
from session_core.agent.hooks import Hooks, may_compact
from session_core.agent.model_call import Models
from session_core.session.turn_handle import TurnHandle

COMPACT_AT = 0.8
"""How full a model's context may be before the conversation is summarised."""


@attrs.frozen(kw_only=True)
class CompactionPolicy:
    """How a service makes summaries: by its own means, or else by the session's model."""

    models: Models
    hooks: Hooks
    compactor: Compactor | None = None
    compact_at: float = COMPACT_AT

    def is_full(self, desk: TurnHandle) -> bool:
        """Tell whether a conversation fills its model's context."""
        info = self.models.with_folder_models(desk.state.settings.cwd).infos.get(desk.state.settings.model)
        return info is not None and desk.state.context_tokens >= self.compact_at * info.context_tokens

    async def summarise(self, desk: TurnHandle, *, automatic: bool) -> Summary:
        """Make a summary of the conversation and count what that uses; raises `SummaryFailed`.

        The caller puts it in place.
        """
        if (no := await may_compact(self.hooks, desk.state.session_id, automatic=automatic)) is not None:
            raise SummaryFailed(f"an extension does not want it: {no.reason}")
        return await summarise_conversation(
            desk, self.models.with_folder_models(desk.state.settings.cwd), compactor=self.compactor
        )
