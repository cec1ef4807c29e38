from session_core.protocols.adapters import (
    ProseFunction as ProseFunction,
)
from session_core.protocols.adapters import (
    ProseProtocol as ProseProtocol,
)
from session_core.protocols.adapters import (
    StatelessExecutor as StatelessExecutor,
)
from session_core.protocols.api import (
    ProtocolBundle as ProtocolBundle,
)
from session_core.protocols.api import (
    ProtocolFactory as ProtocolFactory,
)
from session_core.protocols.api import (
    ProtocolSession as ProtocolSession,
)
from session_core.protocols.api import (
    TurnAdditions as TurnAdditions,
)
from session_core.protocols.contexts import (
    BeforeCall as BeforeCall,
)
from session_core.protocols.contexts import (
    BeforeCallContext as BeforeCallContext,
)
from session_core.protocols.contexts import (
    BuildContext as BuildContext,
)
from session_core.protocols.contexts import (
    ChildAnswer as ChildAnswer,
)
from session_core.protocols.contexts import (
    ChildFailed as ChildFailed,
)
from session_core.protocols.contexts import (
    DirectAnswer as DirectAnswer,
)
from session_core.protocols.contexts import (
    DirectFailed as DirectFailed,
)
from session_core.protocols.contexts import (
    DirectRequest as DirectRequest,
)
from session_core.protocols.contexts import (
    FinishNow as FinishNow,
)
from session_core.protocols.contexts import (
    RefuseTurn as RefuseTurn,
)
from session_core.protocols.contexts import (
    ReplaceRequest as ReplaceRequest,
)
from session_core.protocols.contexts import (
    SessionContext as SessionContext,
)
from session_core.protocols.contexts import (
    SwitchTo as SwitchTo,
)
from session_core.protocols.contexts import (
    TooManyQuestions as TooManyQuestions,
)
from session_core.protocols.driver import (
    Actions as Actions,
)
from session_core.protocols.driver import (
    AskModel as AskModel,
)
from session_core.protocols.driver import (
    Checkpoint as Checkpoint,
)
from session_core.protocols.driver import (
    CheckpointKind as CheckpointKind,
)
from session_core.protocols.driver import (
    Driver as Driver,
)
from session_core.protocols.driver import (
    DriverView as DriverView,
)
from session_core.protocols.driver import (
    ExecuteCode as ExecuteCode,
)
from session_core.protocols.driver import (
    Finish as Finish,
)
from session_core.protocols.driver import (
    Remember as Remember,
)
from session_core.protocols.driver import (
    RunTools as RunTools,
)
from session_core.protocols.driver import (
    SetOptions as SetOptions,
)
from session_core.protocols.driver import (
    SwitchFrame as SwitchFrame,
)
from session_core.protocols.driver import (
    Tell as Tell,
)
from session_core.protocols.execution import (
    Cell as Cell,
)
from session_core.protocols.execution import (
    CellResult as CellResult,
)
from session_core.protocols.execution import (
    CodeExecutor as CodeExecutor,
)
from session_core.protocols.execution import (
    Execution as Execution,
)
from session_core.protocols.execution import (
    KeptState as KeptState,
)
from session_core.protocols.execution import (
    StateCapture as StateCapture,
)
from session_core.protocols.faults import (
    OptionConflict as OptionConflict,
)
from session_core.protocols.faults import (
    OptionsInvalid as OptionsInvalid,
)
from session_core.protocols.faults import (
    ProtocolFault as ProtocolFault,
)
from session_core.protocols.faults import (
    StateNotKeepable as StateNotKeepable,
)
from session_core.protocols.faults import (
    StateRejected as StateRejected,
)
from session_core.protocols.options import (
    PluginOptions as PluginOptions,
)
from session_core.protocols.options import (
    option as option,
)
from session_core.protocols.options import (
    read_options as read_options,
)
from session_core.protocols.prose import ProseProjector as ProseProjector
from session_core.protocols.prose import Span as Span
from session_core.protocols.standard import NativeToolDriver as NativeToolDriver
from session_core.vocabulary.protocols import (
    ExecutorState as ExecutorState,
)
from session_core.vocabulary.protocols import (
    Frame as Frame,
)
from session_core.vocabulary.protocols import (
    ProtocolRecord as ProtocolRecord,
)
