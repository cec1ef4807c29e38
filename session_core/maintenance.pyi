from session_core.checkpoints.store import CheckpointStore as CheckpointStore
from session_core.storage.maintenance.export_import import (
    export_session as export_session,
)
from session_core.storage.maintenance.export_import import (
    import_session as import_session,
)
from session_core.storage.maintenance.findings import StoreFinding as StoreFinding
from session_core.storage.maintenance.rebuild import RebuildReport as RebuildReport
from session_core.storage.maintenance.rebuild import rebuild_store as rebuild_store
from session_core.storage.maintenance.store_files import (
    StoreStatistics as StoreStatistics,
)
from session_core.storage.maintenance.store_files import (
    backup_store as backup_store,
)
from session_core.storage.maintenance.store_files import (
    compact_store as compact_store,
)
from session_core.storage.maintenance.store_files import (
    restore_store as restore_store,
)
from session_core.storage.maintenance.store_files import (
    store_statistics as store_statistics,
)
from session_core.storage.maintenance.verify import verify_store as verify_store
from session_core.storage.retention_settings import Retention as Retention
