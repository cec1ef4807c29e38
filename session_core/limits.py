"""All bounds of the system in one place, each with its reason."""

from typing import Final

# What one caller may send.
MAX_TEXT_CHARS: Final = 1_000_000
"""A prompt of a million characters is more than any model reads; more is a mistake or an attack."""
MAX_NAME_CHARS: Final = 200
"""Session names, model names and keys are shown on one line."""
MAX_PATH_CHARS: Final = 4_096
"""The longest path Linux accepts."""
MAX_IMAGE_BYTES: Final = 5_000_000
"""Providers refuse larger images."""
MAX_MESSAGE_CHARS: Final = 8_000_000
"""Text and images of one message together; it must fit into a frame with room to spare."""
MAX_PARTS_PER_MESSAGE: Final = 64
"""A user message is text and a handful of images."""
MAX_DELAY_MS: Final = 7 * 24 * 3_600_000
"""Wake-ups further away than a week belong in a calendar."""
MAX_PAGE: Final = 500
"""The longest page of a session list."""
MAX_SANDBOX_CHARS: Final = 64 * 1024
"""All paths of a sandbox policy together: sixteen of the longest."""
MAX_TURN_JSON_BYTES: Final = 1024 * 1024
"""The required shape of a turn's answer, or the data for the protocol that comes with a message."""

# What the wire accepts.
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""One JSON document; larger ones are refused before they are parsed."""
MAX_JSON_DEPTH: Final = 64
"""Deep enough for tool arguments, shallow enough that no parser or reader recurses into trouble."""
MAX_OPEN_JSON_VALUES: Final = 5_000
"""Values of an object of any shape from an extension: one of that size is checked and frozen in about ten milliseconds,
and written again for each that gets it."""
MAX_OPEN_JSON_DEPTH: Final = MAX_JSON_DEPTH - 16
"""Depth of JSON of unknown shape inside a value; the rest is room for the values and envelopes around it, so every
client can read in an event what another client could send in a command."""
MAX_MESSAGE_BYTES: Final = MAX_FRAME_BYTES - 64 * 1024
"""One message as JSON, and one page of messages; the rest of the frame is for its envelope. The size
is an upper bound: six bytes for a character, as a control character takes, and one for a character of an image."""
MAX_SNAPSHOT_LINE: Final = 128 * 1024 * 1024
"""One line from the service to a client: the snapshot of a session may be longer than anything that is recorded,
because it holds many such things at once."""
MAX_SNAPSHOT_BYTES: Final = MAX_SNAPSHOT_LINE - 64 * 1024
"""One snapshot as JSON. The bounds of everything that the state of a session holds add up to less, counting six bytes
for a character, so a snapshot always fits into a line as it is
(`tests/session_core/session/test_snapshot_bounds.py`)."""
MAX_INTEGER: Final = 2**53
"""Integers beyond this are not exact in JavaScript, which half of our clients use."""

# What a connection to another program holds (`session_core.rpc`).
MAX_RPC_LINE: Final = MAX_FRAME_BYTES
"""One message; a longer line is skipped without being buffered."""
RPC_HEAD_BYTES: Final = 4_096
"""What is kept of a line that is too long: its id and kind are in the first bytes in every implementation."""
MAX_RPC_SKIPPED: Final = 16 * MAX_RPC_LINE
"""Bytes of oversized lines between two messages; more is no accident, and the connection is closed."""
RPC_LONG_LINE: Final = 64 * 1024
"""A longer line is parsed in a thread: it may take milliseconds for each ten of these."""
MAX_EXTENSION_VALUES: Final = 200_000
"""Values in one message of an extension. The longest texts have few of them, and each costs hundreds of bytes of memory
and a fraction of a microsecond wherever it is touched; a conversation of ten thousand messages has forty thousand."""
MAX_RPC_NOISE: Final = 16 * 1024 * 1024
"""Bytes of all other useless lines between two messages: more is a loop that prints, not a greeting."""
RPC_NOISE_LINE: Final = 64
"""What each of them counts in addition to its own bytes, because even the shortest takes time to parse."""
RPC_PORTION_LINES: Final = 64
"""Lines that are parsed before other tasks may run; the worst short one takes tens of microseconds."""
RPC_PORTION_BYTES: Final = 8_192
"""The same in bytes; the worst of them takes half a microsecond."""
MAX_RPC_ID_CHARS: Final = 200
"""An id is kept for as long as its request runs, so it cannot be a document."""
MAX_RPC_REQUESTS: Final = 256
"""Requests of the other side that run at once; one more is answered with an error."""
RPC_WAIT_FRAMES: Final = 1_024
"""Frames that wait to be written before our own requests and notifications wait too."""
RPC_WAIT_BYTES: Final = 1024 * 1024
"""The same in bytes."""
MAX_RPC_FRAMES: Final = 8_192
"""Frames that wait to be written, replies included, which nothing can hold back; a peer that leaves more unread is
given up."""
MAX_RPC_BYTES: Final = 4 * MAX_RPC_LINE
"""The same in bytes; each frame counts as `MAX_RPC_LINE` at most, so that a longer snapshot fits, and what follows
it."""
RPC_EVENTS: Final = 1_024
"""Events that wait for a slow reader; the oldest are shed, and the reader is told how many."""
MAX_RPC_EVENT_BYTES: Final = MAX_RPC_LINE
"""The same in bytes."""
RPC_FLUSH_MS: Final = 1_000
"""How long a closing connection tries to flush what is still queued."""

# What the process of an extension is allowed (`session_core.sep`).
EXTENSION_START_MS: Final = 10_000
"""How long an extension may take to answer its first request; one that compiles at startup needs seconds."""
EXTENSION_STOP_MS: Final = 5_000
"""How long it may take to answer its last one and to exit, before its process group is killed."""
EXTENSION_EARLY_BYTES: Final = 1024 * 1024
"""What it may send before its first answer is processed, approximately in bytes of memory; more is dropped."""
EXTENSION_REGISTERS_AT_ONCE: Final = 16 * 1024
"""Bytes of a `registry/update` that is checked inline, in about ten milliseconds; a larger one is checked aside."""
MAX_EXTENSION_REGISTERS: Final = 8 * 1024 * 1024
"""Bytes of unchecked updates of one extension; more is refused, because nothing of that size can be valid."""
EXTENSION_PUBLISHES_PER_S: Final = 100
"""What one extension may show, post and append in a second: each is an event for all followers, and most are written
to disk. Animations take thirty."""
EXTENSION_PUBLISHES_AT_ONCE: Final = 1_000
"""How many of them may come in a burst, such as the entries of a first import."""
EXTENSION_IDLE_MS: Final = 60_000
"""An extension that is silent for this long is pinged."""
EXTENSION_PONG_MS: Final = 10_000
"""How long its pong may take; it is killed when it misses two in a row."""
EXTENSION_HEALTHY_MS: Final = 5 * 60_000
"""An extension that has run for this long is not in a crash loop: its next crash counts as the first."""
EXTENSION_NOISE_LINES: Final = 200
"""Lines per second on its stdout that are not messages and go to its log; further ones are only counted."""
EXTENSION_HOOK_MS: Final = 5_000
"""How long an extension may take to answer a hook, unless its manifest says otherwise; the turn goes on without it."""
MAX_ADDED_MESSAGES: Final = 1_000
"""Messages that extensions may add to a conversation before a model reads it."""
EXTENSION_GUARD_MS: Final = 60_000
"""The same for hooks where silence means no: the extension may have to ask a person."""
EXTENSION_TOOL_MS: Final = 120_000
"""How long an extension's tool may be silent; each progress report restarts this timeout."""
EXTENSION_TOOL_TOTAL_MS: Final = 3_600_000
"""How long one call of it may take in total."""
MAX_PROGRESS_VALUES: Final = 1_000
"""Values in the details of a progress report, which may come many times a second."""
EXTENSION_PROGRESS_EVERY_MS: Final = 50
"""How often the progress of one call is shown; reports in between are merged."""
EXTENSION_ANSWER_MS: Final = 300_000
"""How long an extension's model may be silent before or during an answer."""
EXTENSION_ANSWER_TOTAL_MS: Final = 3_600_000
"""How long one answer may take in total."""
EXTENSION_LOGIN_MS: Final = 300_000
"""How long a person may take to log in to a provider of an extension."""
EXTENSION_REFRESH_MS: Final = 60_000
"""How long it may take to renew a login, which needs no person."""
MAX_CREDENTIAL_CHARS: Final = 64_000
"""What one login may store: a few tokens."""
MAX_CREDENTIALS: Final = 256
"""Logins that are kept; the oldest are forgotten."""
EXTENSION_LOG_LINES: Final = 1_000
"""Lines of its log in memory; the oldest are forgotten."""
EXTENSION_LOG_CHARS: Final = 2_000
"""Length of one of them; the rest of the line is cut."""
EXTENSION_LAST_LINES: Final = 100
"""Of its stderr, in which the reason of its end is looked for: node writes some twenty after an error."""
EXTENSION_LOG_BYTES: Final = 1024 * 1024
"""Size of its log on disk before it is rotated; one old file is kept."""

# What the service holds at a time.
MAILBOX_CAPACITY: Final = 1_024
"""Commands waiting for the actor; one more is refused with `Overloaded`."""
DRAIN_PER_TICK: Final = 64
"""Commands the actor runs before it lets other tasks run."""
STREAM_CAPACITY: Final = 8_192
"""Events kept for readers of all sessions."""
SESSION_STREAM_CAPACITY: Final = 2_048
"""Events kept for readers of one session; a chatty neighbour cannot push them out."""
WINDOW_MESSAGES: Final = 1_024
"""The newest messages, held in a session's state: several long turns, and few enough to copy quickly. The window is
part of the fold: readers with another number would see another state."""
WINDOW_BYTES: Final = MAX_MESSAGE_BYTES
"""These messages as JSON, counted like a single one: the window fits into a frame. That is 2.7 million characters."""
CONVERSATION_CHARS: Final = 4_000_000
"""Characters of a conversation that a turn holds: about as much as any model reads."""
IDEMPOTENCY_CAPACITY: Final = 4_096
"""Replies remembered for retries; the oldest are forgotten first."""
MAX_QUEUE_ITEMS: Final = 64
"""Messages waiting in one session."""
MAX_ENTRIES: Final = 200
"""Entries of extensions held in a session's state, the newest ones; all of them stay in the journal. Like the window,
part of the fold."""
MAX_ENTRY_BYTES: Final = 16 * 1024
"""One entry as JSON; a snapshot with all of them must stay small."""
MAX_DISPLAYS: Final = 64
"""Extensions that show something in one session; part of the fold."""
MAX_WIDGET_BYTES: Final = 64 * 1024
"""One widget as JSON: more than a screen of text."""
MAX_COMMANDS_AT_ONCE: Final = 16
"""Commands of extensions that run at once in one session."""
MAX_TURNS_OF_ONE_MESSAGE: Final = 8
"""Turns that come of one message of a person: its own, and one for each message that extensions send because of it or
of each other. More would be extensions driving each other, and each turn may cost money."""
MAX_PROGRAMS_AT_ONCE: Final = 8
"""Programs of extensions that run, or wait for a person's approval, at once in one session."""
MAX_OPEN_REQUESTS: Final = 64
"""Approvals and dialogs waiting in one session."""
MAX_DIALOGS_OF_EXTENSION: Final = 16
"""Dialogs of one extension among them: as many as its commands that may run, and room for others to ask."""
MAX_APPROVAL_BYTES: Final = 8 * 1024 * 1024
"""All approvals waiting in one session as JSON: enough for one call with the longest arguments that a model writes."""
MAX_DIALOG_BYTES: Final = 4 * 1024 * 1024
"""The same for dialogs: enough for the longest text, at four bytes for a character."""
MAX_WAKEUPS: Final = 64
"""Wake-ups armed in one session."""
MAX_WAKEUP_CHARS: Final = MAX_TEXT_CHARS
"""Their texts together."""
MAX_SUMMARY_CHARS: Final = 300
"""The one-line summary of a tool call."""
MAX_SHOWN_CHARS: Final = 100_000
"""What people are shown of a tool call before they answer; nobody can judge a longer one, so it is refused."""
MAX_GRANTS: Final = 256
"""Standing grants of one session; beyond that, each call needs its own approval."""
MAX_GRANT_CHARS: Final = 256_000
"""The same in characters; part of the fold."""
MAX_PLAN_BYTES: Final = 128 * 1024
"""The plan of a session as JSON; it is for people to read at a glance."""
MAX_LIST_BYTES: Final = 96 * 1024 * 1024
"""The list of all sessions as JSON, counting six bytes for a character: some sixty thousand usual sessions."""
MAX_LISTED_EXTENSIONS_BYTES: Final = 8 * 1024 * 1024
"""What the list says about extensions as JSON; one for which there is no room is listed without what it provides."""
MAX_USAGE_LINES: Final = 64
"""Models and purposes counted separately in one session; usage of further ones only counts in the total."""
MAX_FINISHED_REQUESTS: Final = 256
"""Answered approvals and dialogs remembered per session, to tell a late answer who was first."""

# What a turn may use.
MAX_STEPS_PER_TURN: Final = 200
"""Model calls in one turn; a model that loops is ended with a clear outcome."""
MAX_ANSWER_CHARS: Final = 1_000_000
"""Text of one model answer; an answer that never ends is a failure."""
MAX_TOOL_OUTPUT_CHARS: Final = 100_000
"""Text of one tool result that is kept and shown to the model; the rest is cut with a remark."""
MAX_LIVE_OUTPUT_CHARS: Final = 64_000
"""Live output of a running tool kept in the state; older output is cut from the front."""
MAX_OUTPUT_BYTES: Final = 4 * 1024 * 1024
"""The JSON that a turn was asked for: enough for the longest answer, at four bytes for a character."""
MAX_FINAL_TEXT_CHARS: Final = 64_000
"""Text of the last answer repeated in a turn's outcome."""
MAX_ERROR_CHARS: Final = 2_000
"""Length of an error message from a model or a tool."""
MAX_STEP_ARGUMENTS_BYTES: Final = 8 * 1024 * 1024
"""The arguments of all calls of one answer, or of one cell, as JSON: hooks of extensions may make them longer."""
MAX_STEP_RESULTS_BYTES: Final = MAX_FRAME_BYTES
"""Their results until they become a message; those for which there is no room are shortened, and say so."""
MAX_TOOLS_AT_ONCE: Final = 8
"""Tool calls of one step that run side by side."""
MAX_TASK_DEPTH: Final = 2
"""How deep child sessions may nest: subagents of subagents, and no further."""
MAX_RETRIES: Final = 5
"""How often a failed model call is retried within one step."""
MAX_RETRY_WAIT_MS: Final = 15 * 60_000
"""The longest retry delay that a provider may impose; nobody waits longer than that."""
APPROVAL_TIMEOUT_MS: Final = 15 * 60_000
"""An approval nobody answers is denied after this long."""
STOP_PATIENCE_MS: Final = 5_000
"""How long `request_stop` waits for the end before it reports that work is still stopping."""
KILL_GRACE_MS: Final = 500
"""Time between SIGTERM and SIGKILL for a child process group."""

# What the store holds.
MAX_RECORD_BYTES: Final = 4 * MAX_FRAME_BYTES
"""One event in the journal; a larger one was not written by this program."""
MAX_BACKLOG_BYTES: Final = 64 * 1024 * 1024
"""Events that wait for a slow disk; beyond this, commands are refused until it has caught up."""
PARTIAL_TEXT_EVERY_MS: Final = 250
"""How often the text of an unfinished answer is saved. With the time the disk takes, a crash loses half a second."""
COMMIT_AFTER_MS: Final = 100
"""How long events that nobody waits for may accumulate before they are committed together: a large batch costs a third
less per event than a batch of 20 milliseconds, and with the interval above it stays within the half second."""
SEARCHABLE_AFTER_MS: Final = 2_000
"""How long messages may accumulate before they are indexed together; a search also reads those not indexed yet."""
COMMIT_AFTER_STEPS: Final = 1_000
"""This many of them are committed without further delay: a journal statement takes 1,024 rows, which leaves room for
events that come while the commit starts."""
STATE_EVERY_EVENTS: Final = 256
"""The most events of a session between two saved states: opening it folds at most this many."""
MAX_KV_KEY_CHARS: Final = 512
"""A key under which an extension stores a value: a path or an address, not a document."""
MAX_KV_VALUE_BYTES: Final = 256 * 1024
"""One such value as JSON; larger data belongs in a file."""
MAX_KV_VALUES: Final = 20_000
"""Values within one that an extension stores: each number, text, list and object is checked."""
MAX_KV_KEYS: Final = 1_024
"""How many keys one extension may have: the list of them fits into any reply."""
MAX_KV_BYTES: Final = 16 * 1024 * 1024
"""The total size of all values of one extension."""
MAX_LEAF_BYTES: Final = 32 * 1024 * 1024
"""One leaf of an executor's state; as text in an export, it is still shorter than the longest record."""
REMEMBERED_SESSIONS_MS: Final = 5 * 60_000
"""How long a session at rest stays in memory after it was last used."""

# Folders of one service.
MAX_OPEN_FOLDERS: Final = 32
"""Folders that are followed, with their MCP servers, while no turn runs in them; those in use come on top."""
MAX_STATED_FOLDERS: Final = 4_096
"""Folders whose trusted files forbid something, remembered while nobody follows them: a few hundred bytes each."""
MAX_FOUND_PATHS: Final = 50_000
"""Files of a folder that are searched for a name; in larger folders people type more of the path, or work further
down."""
MAX_FOUND_CHARS: Final = 8_000_000
"""The same in characters, because these names stay in memory while somebody types."""
FIND_FILES_MS: Final = 2_000
"""How long collecting the names of a folder may take, because somebody has just pressed a key and waits."""
FOUND_FRESH_MS: Final = 5_000
"""How old these names may be: long enough to type a word without walking the folder for each letter."""
MAX_FOUND_FOLDERS: Final = 8
"""Folders whose names are held at once."""
FOLDER_SERVERS_WAIT_MS: Final = 10_000
"""How long the first turn in a folder waits for its MCP servers; its model should know their tools from the start."""

MAX_PROTOCOL_OPTIONS_BYTES = 64 * 1024
"""All options of a session's protocol; they are part of every snapshot."""
PROTOCOL_CALLBACK_MS = 10_000
"""One callback of a protocol plugin; it has no reason to take long, and a turn waits for it."""
PROTOCOL_BEFORE_CALL_MS = 300_000
"""The callback before a model call, which may call a model itself."""
PROTOCOL_CAPTURE_MS = 60_000
"""Saving or restoring the state of an executor."""
MAX_TURN_PROCESSES = 8
"""Programs that a protocol runs at once in one turn; one that starts more has lost track of them."""
MAX_ENDED_TURN_PROCESSES = 64
"""Ended programs whose output can still be read in the same turn; the oldest are forgotten."""
MAX_DRIVER_ACTIONS = 32
"""Actions in one reply of a driver; each message among them is read by the model, and kept."""
MAX_DRIVER_MEMORY_BYTES = 64 * 1024
"""What a driver remembers about a turn; it is part of every snapshot."""
MAX_DIRECT_COMPLETIONS = 200
"""Model calls that a protocol makes outside the conversation in one turn, as many as the turn itself may make."""
MAX_PROTOCOL_CHILDREN = 100
"""Child sessions that a protocol makes itself in one turn; each is work of its own, and stays in the list."""
MAX_DIRECT_CHARS = 8_000_000
"""The total size of their answers, which are cached until the turn ends so the same question is not paid for twice."""
MAX_FRAME_SWITCHES = 16
"""Frames that one turn may go through; more is a protocol going round in circles."""
MAX_FRAMES = 1_000
"""Frames of a session; they are part of every snapshot."""
MAX_CELL_VARIABLE_BYTES: Final = 8 * 1024 * 1024
"""One serialized variable that cells leave behind; larger data belongs in a file."""
MAX_CELL_STATE_BYTES: Final = 32 * 1024 * 1024
"""All variables together; a session in memory holds them, to replace a process that is killed."""
MAX_CELL_VARIABLES: Final = 512
"""How many are kept; a list of them is part of each saved state."""
MAX_CELL_IMAGES: Final = 4
"""Images that one cell shows; they become part of the conversation."""
MAX_CELL_IMAGE_CHARS: Final = 6_000_000
"""Their total size in characters; they share a message with the cell's output."""
MAX_CELL_CALLS: Final = 256
"""Tools that one cell calls; each of them is part of the session's state until the cell has ended."""
MAX_CELL_CALL_CHARS: Final = 8_000_000
"""The total size of their arguments and results, for the same reason."""
MAX_CELL_FRAMES: Final = 10_000
"""Messages from the process of a cell until the cell has ended; a process that floods the service is given up."""
MAX_EXECUTOR_ROOT_BYTES: Final = 4 * 1024 * 1024
"""The root of an executor's state, which is part of every snapshot; larger data belongs in leaves."""
MAX_EXECUTOR_LEAVES: Final = 4_096
"""Leaves of an executor's state; each is named in the root's event."""
MAX_EXECUTOR_NAME_CHARS: Final = 128 * 1024
"""Their names together, which are part of every snapshot too."""
MAX_EXECUTOR_POINTS: Final = 8
"""Saved states of an executor, including the newest, for going back in the conversation."""
MAX_EARLIER_STATES_BYTES: Final = 512 * 1024
"""What the earlier states add to every snapshot."""
CELL_MEMORY_BYTES: Final = 2 * 1024**3
"""Address space of the process that runs cells."""
CELL_FILE_BYTES: Final = 64 * 1024 * 1024
"""Size of its folder for temporary files, which is in memory too, and of each file in it."""
CELL_FILES: Final = 256
"""Files, pipes and socket pairs that it has open: their buffers are memory that no other limit counts."""
CELL_GRACE_MS: Final = 2_000
"""How long a cell has between being interrupted and its process being killed."""
CELL_KEEP_MS: Final = 20_000
"""How long it may take to save variables after a cell, or to restore them."""
