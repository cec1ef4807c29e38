from session_core.assembly.extension_models import (
    build_choice_error as build_choice_error,
)
from session_core.assembly.extension_models import (
    extension_may_bring as extension_may_bring,
)
from session_core.assembly.folders.files import list_trust_remarks as list_trust_remarks
from session_core.assembly.setup import Setup as Setup
from session_core.assembly.setup import open_setup as open_setup
from session_core.assembly.surroundings import (
    AgentEnvironment as AgentEnvironment,
)
from session_core.assembly.surroundings import (
    current_environment as current_environment,
)
from session_core.config.load import (
    find_project_file as find_project_file,
)
from session_core.config.load import (
    find_trusted_fingerprint as find_trusted_fingerprint,
)
from session_core.config.load import (
    load_config as load_config,
)
from session_core.config.problems import ConfigInvalid as ConfigInvalid
from session_core.config.problems import ConfigProblem as ConfigProblem
from session_core.config.setting_report import ShownSetting as ShownSetting
from session_core.config.setting_report import describe_settings as describe_settings
from session_core.config.tool_names import unknown_tool_names as unknown_tool_names
from session_core.config.values import Config as Config
from session_core.config.watch import ConfigWatcher as ConfigWatcher
from session_core.mcp.client import McpServers as McpServers
from session_core.mcp.client import open_mcp_servers as open_mcp_servers
from session_core.mcp.config import McpConfig as McpConfig
from session_core.mcp.config import ServerConfig as ServerConfig
from session_core.mcp.config import load_mcp_config as load_mcp_config
from session_core.mcp.content import ServerStatus as ServerStatus
from session_core.protocols.registry import problem_of_protocol_name as problem_of_protocol_name
from session_core.providers.catalogue import Prices as Prices
from session_core.providers.catalogue import cost_micros as cost_micros
from session_core.providers.catalogue import find_model as find_model
from session_core.providers.model_choice import DEMO as DEMO
from session_core.providers.model_choice import (
    ModelChoice as ModelChoice,
)
from session_core.providers.model_choice import (
    PickedModel as PickedModel,
)
from session_core.providers.model_choice import (
    available_models as available_models,
)
from session_core.providers.model_choice import (
    default_model as default_model,
)
from session_core.providers.model_choice import (
    probe_ollama as probe_ollama,
)
from session_core.providers.model_choice import (
    resolve_model as resolve_model,
)
from session_core.providers.secrets import Secret as Secret
from session_core.providers.secrets import redact as redact
from session_core.sandbox.bubblewrap import (
    Bubblewrap as Bubblewrap,
)
from session_core.sandbox.bubblewrap import (
    NoBubblewrap as NoBubblewrap,
)
from session_core.sandbox.bubblewrap import (
    find_bubblewrap as find_bubblewrap,
)
from session_core.sandbox.file_values import WorkspaceRefused as WorkspaceRefused
from session_core.sandbox.landlock import has_landlock_scopes as has_landlock_scopes
from session_core.sandbox.seccomp import filter_program as filter_program
from session_core.sandbox.trust import (
    Fingerprint as Fingerprint,
)
from session_core.sandbox.trust import (
    TooMuchToTrust as TooMuchToTrust,
)
from session_core.sandbox.trust import (
    TrustStore as TrustStore,
)
from session_core.sandbox.trust import (
    take_fingerprint as take_fingerprint,
)
from session_core.sandbox.workspace import Workspace as Workspace
from session_core.storage.home import (
    default_home as default_home,
)
from session_core.storage.home import (
    find_home_faults as find_home_faults,
)
from session_core.storage.home import (
    prepare_home as prepare_home,
)
from session_core.storage.home import (
    refuse_exposed_home as refuse_exposed_home,
)
from session_core.storage.home_lock import HomeLock as HomeLock
from session_core.storage.home_lock import LockHolder as LockHolder
from session_core.storage.home_lock import lock_holder as lock_holder
from session_core.storage.ownership import OwnershipFault as OwnershipFault
from session_core.storage.private_files import (
    hold_file_lock as hold_file_lock,
)
from session_core.storage.private_files import (
    private_open as private_open,
)
from session_core.storage.private_files import (
    read_private as read_private,
)
from session_core.storage.private_files import (
    replace_private as replace_private,
)
