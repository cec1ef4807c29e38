"""One-time codes and the cookies they turn into."""

from frontends.server.access import EVERYTHING, Access
from frontends.server.http.logins import (
    CODE_MS,
    LOGIN_MS,
    MAX_CODES,
    MAX_LOGINS,
    BrowserLogins,
    cookie_header,
    cookie_name,
)


class World:
    now = 1_000
    generation = 1


def logins(world: World) -> BrowserLogins:
    return BrowserLogins(lambda: world.generation, now=lambda: world.now)


def test_a_code_is_good_once() -> None:
    """A code gives one login, which gives the rights it was made for; a second use gives nothing."""
    browsers = logins(World())
    code = browsers.new_code(Access(role="observer"))

    secret = browsers.redeem(code)

    assert secret is not None
    found = browsers.credential_of(secret)
    assert found is not None
    assert (Access(role="observer"), "cookie") == (found.access, found.kind)
    assert browsers.redeem(code) is None
    assert browsers.redeem("") is None
    assert browsers.credential_of(code) is None


def test_codes_and_logins_grow_old() -> None:
    """A code is good for a minute and a login for a week, to the millisecond."""
    world = World()
    browsers = logins(world)
    early, late = browsers.new_code(EVERYTHING), browsers.new_code(EVERYTHING)

    world.now += CODE_MS - 1
    secret = browsers.redeem(early)
    world.now += 1

    assert secret is not None
    assert browsers.redeem(late) is None
    world.now += LOGIN_MS - 2
    assert browsers.credential_of(secret) is not None
    world.now += 1
    assert browsers.credential_of(secret) is None


def test_a_new_token_of_the_home_ends_them() -> None:
    """Codes and logins that rest on another token of the home are good for nothing."""
    world = World()
    browsers = logins(world)
    code, secret = browsers.new_code(EVERYTHING), browsers.redeem(browsers.new_code(EVERYTHING))

    world.generation += 1

    assert secret is not None
    assert browsers.redeem(code) is None
    assert browsers.credential_of(secret) is None


def test_their_number_is_bounded() -> None:
    """Of too many codes or logins the oldest are forgotten."""
    browsers = logins(World())
    codes = [browsers.new_code(EVERYTHING) for _ in range(MAX_CODES + 1)]

    assert [None] == [each for each in map(browsers.redeem, codes) if each is None]
    secrets = [browsers.redeem(browsers.new_code(EVERYTHING)) or "" for _ in range(MAX_LOGINS + 1)]
    assert [False, *[True] * MAX_LOGINS] == [browsers.credential_of(each) is not None for each in secrets]


def test_the_cookie_is_kept_from_pages_and_other_sites() -> None:
    """The cookie is HttpOnly, SameSite=Strict, for all paths, named by its port, and Secure under TLS."""
    plain = cookie_header(cookie_name(8000, secure=False), "s", secure=False)
    secure = cookie_header(cookie_name(8000, secure=True), "s", secure=True)

    assert f"session-core-8000=s; Path=/; HttpOnly; SameSite=Strict; Max-Age={LOGIN_MS // 1000}" == plain
    assert (
        f"__Host-session-core-8000=s; Path=/; HttpOnly; SameSite=Strict; Max-Age={LOGIN_MS // 1000}; Secure" == secure
    )
