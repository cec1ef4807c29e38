"""Examples and details below the help of each command, in lines of at most 80 columns."""

WHOLE = """\
examples:
  session-core                              open the terminal; F1 shows its keys
  session-core demo                         a guided tour of about 20 seconds
  session-core run "list the files"         ask, watch the answer, leave
  session-core run --continue "and now?"    continue the last session here
  git diff | session-core run "review this" a prompt with text attached
  session-core sessions --search parser     search the messages of all sessions
  session-core show                         read the last conversation here
  session-core undo                         undo the last turn, files too
  session-core trust                        let this project steer the agent
  session-core ext list                     extensions, and why some do not run
  session-core serve                        sessions that run on without you
  session-core watch --all                  watch what they are doing, live

An ID is a session's exact name, or at least 4 characters of the beginning or
the end of its id. Sessions are kept in --home DIR, else in
$SESSION_CORE_HOME, else in the data directory of your system.

SESSION_CORE_DEBUG=1 shows the log and where an unexpected error came from.

exit codes:
  0 done   1 it failed   2 wrong usage   (run has more: session-core run --help)
  130 interrupted   143 terminated (SIGTERM)   141 output pipe closed (SIGPIPE)
"""
TERMINAL = """\
examples:
  session-core                              open it: the most recently used session in this folder, or a new one
  session-core terminal --new               begin a new session
  session-core terminal --session k3fq      view this one (the beginning or end of its id, or its name)
  session-core terminal "fix the tests"     begin a new session with this message
  session-core terminal --embedded          no service in the background: the work ends with the terminal

F1 shows all keys and commands. Closing the terminal leaves the work running; opening it again shows it.
"""
RUN = """\
examples:
  session-core run "list the files"
  session-core run --model sonnet --thinking high "why does the test fail?"
  session-core run --permissions auto-edit "fix the parser"
  session-core run --cwd docs "read stop.md"        work in another folder
  session-core run --session 7k2f "now in German"   continue a session
  session-core run --continue                       finish an interrupted turn
  session-core run --file error.log --file shot.png "what happened here?"
  session-core run --max-steps 20 --max-cost 0.50 --max-time 600 "..."
  session-core run --quiet --output-schema shape.json "list the bugs" | jq
  session-core run --no-save --quiet "count to 3"   nothing is stored
  session-core run --approve never "is it safe?"    for scripts: never asks
  cat bug.txt | session-core run                    the prompt from stdin
  git diff | session-core run "review this"         with text attached
  session-core run --json "hello" | head -1         events as lines of JSON
  session-core run "/commit fix the parser"         a command of an extension
  session-core run "!git status"                    a shell command

A prompt that begins with /name or /extension.name runs that command, and
!line runs in the shell; the model sees the result next turn. To send such
text to the model, double its first character. A prompt from stdin is
always sent to the model. The output of a command goes to stdout, with --json
to stderr.

Stdout carries the answer and nothing else; thoughts, tool calls and the
outcome go to stderr. Text of models and tools is sanitised before it is
printed; --json leaves it unchanged.

A tool call that needs approval is shown before it runs: the command, or the
change of a file. Answer y (once), s (for this session), a (always exactly
this), n, or type what the model should do instead. Enter alone means no; after
an unclear answer you are asked again. Extensions ask the same way; Enter alone
dismisses their questions, and --yes does not answer them.

What would run without a sandbox, because there is no bubblewrap here, can be
allowed by a person only, once each time; --yes denies it. Who wants no sandbox
says so: --sandbox full-access.

With --approve never, every call that needs approval is denied at once. With
--approve rules, a call that changes something runs only if a permission rule
allows it, whatever the mode says; reading needs no rule. Both also dismiss
questions of extensions.

If stdin is a pipe or a file, it is the prompt, or is attached to the prompt as
text of at most 1,000,000 characters. In loops, add < /dev/null.

Ctrl-C stops the turn and keeps the partial answer; a second Ctrl-C leaves at
once.

While a service runs for the home (see: session-core serve --help), the session
runs in it, and continues if this program ends; --embedded does not use it.
A prompt to a busy session waits until the session is free. Stdout carries only
its answer, and Ctrl-C withdraws it while it waits. Without a terminal to ask
on, questions that are not about this prompt are left to other clients.

exit codes:
  0  done
  1  the turn failed, was stopped or was interrupted
  2  wrong usage; nothing was started
  3  the turn ended, but a tool call was denied, and not by your answer
  4  a limit was reached: steps, cost, time or answer length
  5  the answer does not match --output-schema
  130 Ctrl-C   143 terminated (SIGTERM)   141 output pipe closed (SIGPIPE)
"""
SESSIONS = """\
examples:
  session-core sessions                          last used first
  session-core sessions --all                    include archived ones
  session-core sessions --search "parse error"   messages with these words
  session-core sessions --json                   for scripts

A search matches words by their beginning ("pars" finds "parser"); all words
must occur, in any order. Sessions whose name matches come first, then matching
messages, best first; with --json, messages only.

It reads only, so it works while another session-core is running.
"""
SHOW = """\
examples:
  session-core show                 the most recently used one in this folder
  session-core show 7k2f            its recent messages
  session-core show 7k2f --last 4   its newest messages
  session-core show 7k2f --all      from the very beginning
  session-core show 7k2f --json     the state as one JSON object

It reads only, so it works while another session-core is running.
"""
RENAME = """\
examples:
  session-core rename 7k2f "the parser"
  session-core run --session "the parser" "go on"
"""
ARCHIVE = """\
examples:
  session-core archive 7k2f
  session-core archive 7k2f x93d q0ab
"""
RESTORE = """\
examples:
  session-core sessions --all
  session-core restore 7k2f
"""
DELETE = """\
examples:
  session-core delete 7k2f
  session-core delete --yes 7k2f x93d     without asking
"""
FORK = """\
examples:
  session-core fork 7k2f
  session-core run --session "$(session-core fork 7k2f)" "try it differently"
"""
TRANSFER = """\
examples:
  session-core export 7k2f talk.jsonl       a whole session in one file
  session-core export 7k2f talk.html        a page for people
  session-core export 7k2f talk.md          the same as Markdown
  session-core export 7k2f --format html    the page, to stdout
  session-core import talk.jsonl            bring it into this home
  session-core import --as-new talk.jsonl   as a new session, beside the old one
  session-core import --keep-settings talk.jsonl   a file of your own, unchanged
  session-core export 7k2f | ssh laptop session-core import -

Markdown and HTML hold the current branch of the conversation. Text that looks
like a key is masked, long results are cut, and other branches are only
mentioned; they cannot be imported. Lines of JSON hold everything, unchanged.
Without --format the file name decides: .md, .markdown, .html, .htm, .jsonl.
"""
STORE = """\
examples:
  session-core store verify                check every record
  session-core store rebuild               recover what can still be read
  session-core store compact               return unused space to the disk
  session-core store stats                 what is stored, and its size
  session-core store backup copy.sqlite3   all sessions in one file
  session-core store restore copy.sqlite3  go back to that backup

verify, stats and backup work while another session-core is running; the others
wait up to 2 seconds for it to end.
"""
CONFIG = """\
examples:
  session-core config show            what is in force, and where it came from
  session-core config check           errors and settings without effect
  $EDITOR "$(session-core config path)"

Later layers win: defaults, config.toml in the home, .session-core/config.toml
in the project (only in a trusted folder, and only to make things stricter),
variables such as SESSION_CORE_MODEL, flags.
"""
DOCTOR = """\
examples:
  session-core doctor                    a line for each check, with hints
  session-core doctor --json             the same as one JSON object
  session-core doctor --cwd ../project   with the settings of that project

Keys are named, never shown. Each line is ok, a warning (worth knowing) or a
problem (something does not work). MCP servers are not started: see
session-core mcp; neither are extensions: see session-core ext doctor.
"""
MODELS = """\
examples:
  session-core models                    models that can be used now
  session-core models --all              all known models, and what they need
  session-core run --model sonnet "hi"   by an alias
  session-core run --model ollama/qwen3 "hi"

A key is taken from ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENROUTER_API_KEY, or
as your config.toml says. Prices are dollars per million tokens.

Models of extensions are those of the running service. If none runs, each
extension that provides models and may run is started for a moment.
"""
MCP = """\
examples:
  session-core mcp                       each server, its state, its tools
  session-core mcp --json                the tools with all details, for scripts
  session-core mcp --cwd ../project      with the servers of that project

Servers are listed in mcp.json in the home, and in a project's mcp.json, which
counts only if the folder is trusted (see: session-core trust --help).
"""
TRUST = """\
examples:
  session-core trust                     show what the files would do, and ask
  session-core trust --show              only look
  session-core trust ../project --yes    without asking
  session-core trust --list              all folders that you have trusted
  session-core trust --remove            stop trusting this folder

A project can bring instructions (AGENTS.md), settings, skills and MCP servers.
They are used only if you have trusted exactly these files: if one byte changes,
they are not used until you trust them again.
"""
EXT_LINE = "manage extensions: list, inspect, trust, enable, check"
EXT_ABOUT = (
    "Manage extensions: programs that add tools, commands, hooks and models. Each runs only after you have reviewed "
    "it and given consent, and only as long as its files stay the same."
)
EXT_TASKS = {
    "list": ("list them, and which ones run", "List the extensions, and why some do not run."),
    "info": ("show the manifest of one", "Show the manifest and the files of an extension; nothing is started."),
    "trust": (
        "review one, and let it run",
        "Show the command, the names of its variables, what it may use, its sandbox and its files. Asks first.",
    ),
    "enable": ("enable one again", "Enable an extension that was disabled."),
    "disable": ("disable one", "Disable an extension; your consent is remembered."),
    "reload": (
        "check one after a change, and load it",
        "Check an extension with its current files, as doctor does; a running service of this home then reloads it.",
    ),
    "logs": ("show the log of one", "Print the end of the log of an extension."),
    "login": (
        "log in to a provider of one",
        "Log in to the provider of an extension, or to one of several: NAME/PROVIDER. It asks you on this terminal.",
    ),
    "logout": (
        "forget logins of one",
        "Forget the logins to the providers of an extension, or to one of them: NAME/PROVIDER.",
    ),
    "doctor": (
        "start one, and report its problems",
        "Start an extension for real, ping it and end it; report what it offers, and every problem (exit code 1).",
    ),
}
EXT_NEW_LINE = "create one in Python"
EXT_NEW_ABOUT = (
    "Create the folder of a new Python extension that works at once: its manifest, its source, tests and a README. "
    "Existing files are not touched."
)
EXT_NEW = """\
templates:
  tool              a tool for models, which counts words (this is the default)
  command           a slash command that keeps notes, and completes their titles
  permission-gate   asks a person before a dangerous command is run
  provider          a model of your own, whose answer is streamed
  widget            a counter that stays visible, and receives keys

examples:
  session-core ext new words
  session-core ext new notes --template command
  session-core ext new gate --template permission-gate --into ~/my-gate
  session-core ext new words --try

The next commands are printed and in its README: test it, check it, link it and
let it run. With --try it is linked, may run at once, and is started, asked once
and ended; what it answers is shown.
"""
EXT_CHECK_LINE = "test one against the whole protocol"
EXT_CHECK_ABOUT = (
    "Start an extension in any language and check whether it follows the protocol: its greeting, tools, commands, "
    "hooks and events with made-up values, cancellations, odd input, and its end. Every message it sends is checked "
    "against our schemas. It is started without asking for consent, like any command that you type."
)
EXT_CHECK = """\
examples:
  session-core ext check ./gate              a folder with an extension.toml
  session-core ext check python3 gate.py     a command line
  session-core ext check -- node gate.mjs -v    with options of its own
  session-core ext check ./gate --json       the report as one JSON object
  session-core ext check ./gate --timeout 30 for one that answers slowly

Exit code 0 means that the extension follows the protocol (there may be
warnings), 1 that it has to be changed, and 2 wrong usage. Its tools and
commands really run, with an empty folder as their workspace.
"""
EXT = """\
examples:
  session-core ext new words             create one in Python that works at once
  session-core ext list                  all of them, and why some do not run
  session-core ext info gate             everything in its manifest
  session-core ext trust gate            review it, and let it run
  session-core ext trust ./gate --yes    by its folder, without asking
  session-core ext disable gate          disable it; enable enables it again
  session-core ext doctor gate           start it, and report problems
  session-core ext check ./gate          does it follow the protocol?
  session-core ext logs gate             what it printed outside the protocol

Extensions are in extensions/ of the home, in $SMOOTH_HOME/extensions or
~/.smooth/extensions, and in .session-core/extensions and .smooth/extensions of
a project, which count only if the folder is trusted (see: session-core trust
--help). Each is a folder with an extension.toml.
"""
UNDO = """\
examples:
  session-core undo                      before the last message, files too
  session-core undo 7k2f --to "fix the"  before the message starting with this
  session-core undo --files-only         keep the conversation
  session-core undo --conversation-only  keep the files
  session-core undo --redo               revert the last undo

If others have changed one of the files since, nothing is done, and the files
are named; --force overwrites them, and saves their current content first.
Exit code 1 means that nothing was done or that a file was left alone.
"""
