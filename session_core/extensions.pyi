from session_core.sep.conformance.report import (
    ConformanceReport as ConformanceReport,
)
from session_core.sep.conformance.report import (
    ConformanceStep as ConformanceStep,
)
from session_core.sep.conformance.runner import check_extension as check_extension
from session_core.sep.host.catalogue.agreed_copies import AgreedCopies as AgreedCopies
from session_core.sep.host.catalogue.consent import Consents as Consents
from session_core.sep.host.catalogue.discovery import DiscoveredExtension as DiscoveredExtension
from session_core.sep.host.catalogue.discovery import SkippedExtension as SkippedExtension
from session_core.sep.host.catalogue.folder_digest import compute_digest as compute_digest
from session_core.sep.host.catalogue.search_paths import (
    CONSENT_FILE as CONSENT_FILE,
)
from session_core.sep.host.catalogue.search_paths import (
    SearchPaths as SearchPaths,
)
from session_core.sep.host.catalogue.search_paths import (
    build_search_paths as build_search_paths,
)
from session_core.sep.host.catalogue.search_paths import (
    discover_in as discover_in,
)
from session_core.sep.host.extension import HostedExtension as HostedExtension
from session_core.sep.host.host import ExtensionHost as ExtensionHost
from session_core.sep.host.models.credentials import (
    CREDENTIALS_FILE as CREDENTIALS_FILE,
)
from session_core.sep.host.models.credentials import (
    CredentialFile as CredentialFile,
)
from session_core.sep.host.process.extension_log import ExtensionLog as ExtensionLog
from session_core.sep.host.process.launch_command import prepare_launch as prepare_launch
from session_core.sep.protocol.manifest import (
    Manifest as Manifest,
)
from session_core.sep.protocol.manifest import (
    ManifestInvalid as ManifestInvalid,
)
from session_core.sep.protocol.manifest import (
    read_manifest as read_manifest,
)
from session_core.sep.protocol.names import HOOKS as HOOKS
from session_core.sep.protocol.names import Mode as Mode
from session_core.sep.protocol.names import is_extension_name as is_extension_name
from session_core.sep.scaffold.template import ExtensionTrial as ExtensionTrial
from session_core.sep.scaffold.template import NewExtension as NewExtension
from session_core.sep.scaffold.template import scaffold_extension as scaffold_extension
from session_core.vocabulary.extensions import (
    ExtensionCommand as ExtensionCommand,
)
from session_core.vocabulary.extensions import (
    ExtensionDisplay as ExtensionDisplay,
)
from session_core.vocabulary.extensions import (
    ExtensionEntry as ExtensionEntry,
)
from session_core.vocabulary.extensions import (
    ExtensionInfo as ExtensionInfo,
)
from session_core.vocabulary.extensions import (
    Shortcut as Shortcut,
)
from session_core.vocabulary.extensions import (
    UiKind as UiKind,
)
from session_core.vocabulary.prompt_input import (
    TypedCommand as TypedCommand,
)
from session_core.vocabulary.prompt_input import (
    TypedInput as TypedInput,
)
from session_core.vocabulary.prompt_input import (
    TypedMessage as TypedMessage,
)
from session_core.vocabulary.prompt_input import (
    TypedShellLine as TypedShellLine,
)
from session_core.vocabulary.prompt_input import (
    parse_typed_input as parse_typed_input,
)
