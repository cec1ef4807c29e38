"""When conversations are compacted, and by which model."""

import attrs

from session_core.agent.compaction import Compactor, Summary, SummaryFailed, summarise_conversation
from session_core.agent.hooks import Hooks, ask_before_compaction
from session_core.agent.model_call import Models
from session_core.session.turn_handle import TurnHandle

COMPACT_AT = 0.8
"""How full a model's context may get before the conversation is compacted."""


@attrs.frozen(kw_only=True)
class CompactionPolicy:
    """How a service makes summaries: with its own compactor, or else with the session's model."""

    models: Models
    hooks: Hooks
    compactor: Compactor | None = None
    compact_at: float = COMPACT_AT

    def is_full(self, handle: TurnHandle) -> bool:
        """Return whether a conversation fills its model's context."""
        info = self.models.with_folder_models(handle.state.settings.cwd).infos.get(handle.state.settings.model)
        return info is not None and handle.state.context_tokens >= self.compact_at * info.context_tokens

    async def summarise(self, handle: TurnHandle, *, automatic: bool) -> Summary:
        """Summarise the conversation and count the usage; raises `SummaryFailed`.

        The caller puts the summary in place.
        """
        blocked = await ask_before_compaction(self.hooks, handle.state.session_id, automatic=automatic)
        if blocked is not None:
            raise SummaryFailed(f"an extension refused it: {blocked.reason}")
        return await summarise_conversation(
            handle, self.models.with_folder_models(handle.state.settings.cwd), compactor=self.compactor
        )
