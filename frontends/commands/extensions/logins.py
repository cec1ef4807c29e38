"""`session-core ext logout`, and the stored logins to providers of extensions.

Nothing is started and no service is called: a running one reads the file again before each model call.
"""

import sys
from pathlib import Path

import session_core as sc
from frontends.shared.extension_lookup import find_extensions, format_folder, open_logins
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.streams import remark
from frontends.shared.style import stream_style


def logout(home: Path, cwd: Path, word: str) -> int:
    """Run `ext logout` and return the exit code; `word` is the name of an extension, or `name/provider`.

    Raises:
        UsageError: There is no such extension and no login of one, or no login to that provider.
        StoreUnusable: The file of logins cannot be written.
    """
    name, slash, provider = word.partition("/")
    if not sc.extensions.is_extension_name(name) or (slash and not provider):
        raise UsageError(f"{one_line(word)!r} is neither NAME nor NAME/PROVIDER of an extension")
    file = open_logins(home)
    stored_logins = [each for each in file.all() if each.extension == name and provider in {"", each.provider}]
    remark(file.remark)
    if not stored_logins:
        if not find_extensions(home, cwd).entries_named(name) and name not in {each.extension for each in file.all()}:
            raise UsageError(f"there is no extension called {name!r}, and no login of one; see: session-core ext list")
        if provider:
            others = [f"{name}/{one_line(each.provider)}" for each in file.all() if each.extension == name]
            there = f"; there is a login to {', '.join(others)}" if others else ""
            raise UsageError(f"you are not logged in to {one_line(provider)!r} of {name}{there}")
        print(f"you are not logged in to a provider of {name}")
        return 0
    style = stream_style(sys.stdout)
    for each in stored_logins:
        file.forget(each)
        where = f"{one_line(each.provider)} of {name} in {format_folder(Path(each.folder))}"
        print(f"{style.green(style.symbol('✓'))} logged out of {where}")
    remark("the provider may still accept the old token until it expires")
    return 0
