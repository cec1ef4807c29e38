"""Writing extensions in Python: `from session_core.sep.sdk import Extension`.

    ext = Extension("hello")

    @ext.tool(description="Greet somebody.")
    def greet(name: str) -> str:
        return f"Hello, {name}!"

    ext.serve()

- `extension`: `Extension` and its decorators; `registry` holds what they register, `json_types` turns type hints into
  JSON schemas and reads values by them, `signatures` rejects functions that could not work.
- `contexts`: what handlers receive; `ports`: the session, people, stored values and so on, as handlers use them.
- `answers`: what handlers return; `model_calls`: models that stream; `render`: blocks that frontends draw.
- `runtime`: the extension's side of the protocol; `stdio`: protects stdin and stdout; `link`: the connection to the
  host.
- `failures`: the host's errors, as exceptions.
- `testing`: an in-memory host for tests (parts: `testing_answers`, `testing_life`, `testing_link`, `testing_world`).
"""

from session_core.sep.sdk import render as render
from session_core.sep.sdk.answers import Answer as Answer
from session_core.sep.sdk.answers import CommandCompletion as CommandCompletion
from session_core.sep.sdk.answers import Credentials as Credentials
from session_core.sep.sdk.answers import ExecResult as ExecResult
from session_core.sep.sdk.answers import HookReturn as HookReturn
from session_core.sep.sdk.answers import TokenUsage as TokenUsage
from session_core.sep.sdk.answers import ToolCall as ToolCall
from session_core.sep.sdk.answers import ToolResult as ToolResult
from session_core.sep.sdk.answers import block as block
from session_core.sep.sdk.answers import patch as patch
from session_core.sep.sdk.contexts import CommandContext as CommandContext
from session_core.sep.sdk.contexts import CompletionRequest as CompletionRequest
from session_core.sep.sdk.contexts import Context as Context
from session_core.sep.sdk.contexts import EventContext as EventContext
from session_core.sep.sdk.contexts import HookContext as HookContext
from session_core.sep.sdk.contexts import ProviderContext as ProviderContext
from session_core.sep.sdk.contexts import ToolCallContext as ToolCallContext
from session_core.sep.sdk.extension import Extension as Extension
from session_core.sep.sdk.failures import CapabilityDisabled as CapabilityDisabled
from session_core.sep.sdk.failures import ContextExpired as ContextExpired
from session_core.sep.sdk.failures import HostError as HostError
from session_core.sep.sdk.failures import HostGone as HostGone
from session_core.sep.sdk.failures import InvalidRequest as InvalidRequest
from session_core.sep.sdk.failures import NotSupported as NotSupported
from session_core.sep.sdk.failures import NotTrusted as NotTrusted
from session_core.sep.sdk.failures import NoUi as NoUi
from session_core.sep.sdk.failures import Refused as Refused
from session_core.sep.sdk.failures import ToolError as ToolError
from session_core.sep.sdk.model_calls import Piece as Piece
from session_core.sep.sdk.model_calls import Reasoning as Reasoning
from session_core.sep.sdk.registry import Model as Model
