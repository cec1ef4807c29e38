"""`session-core ext logout`, and who is logged in: what logins to providers of extensions have left in the home.

Nothing is started, and no service is asked: one that runs reads the file anew before each question to a model.
"""

import sys
from pathlib import Path

import session_core as sc
from frontends.arguments import UsageError
from frontends.console.sanitise import one_line
from frontends.console.style import style_of
from frontends.extensions.listing import remark
from frontends.extensions.places import logins_in, look, shown


def logout(home: Path, cwd: Path, word: str) -> int:
    """Run `ext logout` and return the exit code; `word` is the name of an extension, or `name/provider`.

    Raises:
        UsageError: There is no such extension, and no login of one; or nobody is logged in to that provider.
        StoreUnusable: The file of logins cannot be written.
    """
    name, slash, provider = word.partition("/")
    if not sc.is_extension_name(name) or (slash and not provider):
        raise UsageError(f"{one_line(word)!r} is neither NAME nor NAME/PROVIDER of an extension")
    file = logins_in(home)
    kept = [each for each in file.all() if each.extension == name and provider in {"", each.provider}]
    remark(file.remark)
    if not kept:
        if not look(home, cwd).named(name) and name not in {each.extension for each in file.all()}:
            raise UsageError(f"there is no extension called {name!r}, and no login of one; see: session-core ext list")
        if provider:
            others = [f"{name}/{one_line(each.provider)}" for each in file.all() if each.extension == name]
            there = f"; there is a login to {', '.join(others)}" if others else ""
            raise UsageError(f"nobody is logged in to {one_line(provider)!r} of {name}{there}")
        print(f"nobody is logged in to a provider of {name}")
        return 0
    style = style_of(sys.stdout)
    for each in kept:
        file.forget(each)
        where = f"{one_line(each.provider)} of {name} in {shown(Path(each.folder))}"
        print(f"{style.green(style.symbol('✓'))} logged out of {where}")
    remark("the provider itself may still take the old token until that runs out")
    return 0
