"""Examples and details below the help of each command, in lines of at most 80 columns."""

WHOLE = """\
examples:
  session-core demo                         a guided tour of about 20 seconds
  session-core run "list the files"         ask, watch the answer, leave
  session-core run --continue "and now?"    go on with the last session here
  git diff | session-core run -             take the prompt from stdin
  session-core sessions --search parser     find what was said in any session
  session-core show 7k2f                    read a conversation again

An ID is a session's exact name, or at least 4 characters of the beginning or
the end of its id. Sessions are kept in --home DIR, else in
$SESSION_CORE_HOME, else where your system keeps such data.

exit codes:
  0 done   1 it failed   2 wrong usage   130 interrupted
  141 the reader of the output left
"""
RUN = """\
examples:
  session-core run "list the files"
  session-core run --cwd docs "read stop.md"        work in another directory
  session-core run --session 7k2f "now in German"   go on with a session
  session-core run --continue                       finish an interrupted turn
  session-core run --no-save --quiet "count to 3"   keep nothing but the answer
  session-core run --json "hello" | head -1         events as lines of JSON

Stdout carries the answer and nothing else; thoughts, tool calls and the
outcome go to stderr. What a model or a tool says is made harmless before it is
printed; --json gives it unchanged.

Ctrl-C stops the turn and keeps the partial answer; a second Ctrl-C leaves at
once.
"""
SESSIONS = """\
examples:
  session-core sessions                          the last used ones first
  session-core sessions --all                    archived ones too
  session-core sessions --search "parse error"   messages with these words
  session-core sessions --json                   for scripts

A search takes each word by its beginning ("pars" finds "parser"), and all of
them must be there, in any order. Sessions whose name fits come first, then the
messages that fit, best first; with --json, messages only.

It reads only, so it works while another session-core is running.
"""
SHOW = """\
examples:
  session-core show 7k2f            the conversation, as far as it is at hand
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
  session-core export 7k2f talk.jsonl       all of a session, in one file
  session-core import talk.jsonl            bring it into this home
  session-core import --as-new talk.jsonl   as a new session, beside the old one
  session-core export 7k2f | ssh laptop session-core import -
"""
STORE = """\
examples:
  session-core store verify                is everything as it was written?
  session-core store rebuild               save what can still be read
  session-core store compact               give unused space back to the disk
  session-core store stats                 what is kept, and how much it takes
  session-core store backup copy.sqlite3   all sessions in one file
  session-core store restore copy.sqlite3  go back to that

verify, stats and backup work while another session-core is running; the others
wait up to 2 seconds for it to end.
"""
