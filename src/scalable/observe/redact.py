"""Takes secrets out of what is written down: by the name a value has, by the text around it, by its shape, and
wherever the value of an environment variable with such a name stands.

``redact`` goes through a whole record, ``redact_text`` through one text, ``Redactor`` through a log, line by line. Only
texts are hidden: counts and sizes are no secrets whatever they are called. ``suspicious`` is a quick look that lets
most records pass without a closer one.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

HIDDEN = "***"
SHORTEST_SECRET = 8  # characters of a variable's value; a shorter one may be a word that stands anywhere
LOOK_AGAIN_S = 1.0  # at the environment
DEEPEST = 50  # levels of nesting that are looked at; what lies deeper is hidden

KEYS = (
    "api|access|private|signing|encryption|account|auth|ssh|license|shared"
    "|openai|anthropic|fernet|storage|master|client|deploy|service|session|hmac"
)
NAME = (
    rf"(?:passw(?:or)?d|passphrase|secret|token(?!i[sz])|credential|(?:{KEYS})[_.-]?key|(?<=[_.-])pwd"
    r"|authorization|cookie"
    r"|(?<=[_.])(?:pass|creds|pat)(?![a-z])"  # db_pass, GH_PAT
    r"|(?-i:(?<=[A-Z0-9])(?<!BY)(?<!COM)PASS(?![A-Za-z]))"  # PGPASS
    r"|(?-i:(?<=[A-Z0-9])(?<!PUBLIC)(?<!PRIMARY)(?<!FOREIGN)(?<!SORT)(?<!CACHE)_KEY(?![A-Za-z])))"  # STRIPE_KEY
)
VALUE = r"""(?:[bruf]{0,2}"[^"]*"?|[bruf]{0,2}'[^']*'?|[^\s,;&"'}\])]+)"""
MIXED = r"(?=[\w-]{0,200}\d)(?=[\w-]{0,200}(?-i:[A-Z]))"  # as keys are and names are not
SECRET_NAME = re.compile(NAME, re.IGNORECASE)
RULES = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement)
    for pattern, replacement in (
        (r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----).*?(-----END|\Z)", rf"\1{HIDDEN}\2"),
        (r"""(://[^\s/:@"']{0,256}:)[^\s/"']{1,512}@""", rf"\1{HIDDEN}@"),  # postgresql://user:password@host
        (r"""(://[^\s/:@"']{0,256}:)(?!\d{1,5}/)[^\s@"']{1,512}@""", rf"\1{HIDDEN}@"),  # user:pass/word, no port
        (r"""(https?://)[^\s/:@"']{1,256}@""", rf"\1{HIDDEN}@"),  # https://token@host
        (r"""(authorization["']?\s{0,3}[=:]\s{0,3}["']?)(?:\w{1,20}\s{1,3})?[^\s"',]+""", rf"\1{HIDDEN}"),
        (r"\b(bearer\s{1,3})[\w.~+/=-]{6,}", rf"\1{HIDDEN}"),
        (r"""(cookie["']?\s{0,3}:\s{0,3}["']?)[^\s=;"']{1,256}=[^\r\n"']*""", rf"\1{HIDDEN}"),  # Cookie: a=b; c=d
        (rf"""({NAME}[\w.-]{{0,40}}["']?\s{{0,3}}[=:]\s{{0,3}}){VALUE}""", rf"\1{HIDDEN}"),  # DB_PASSWORD=abc
        (rf"(--[\w-]{{0,40}}{NAME}[\w-]{{0,40}}\s{{1,3}})(?!-){VALUE}", rf"\1{HIDDEN}"),  # --token abc
        (rf"((?<![\w-])(?:[\w-]{{0,40}}[_-])?key=){VALUE}", rf"\1{HIDDEN}"),  # ?key=abc
        (rf"((?<![\w-])pass=){VALUE}", rf"\1{HIDDEN}"),
        (
            r"""(\s(?:-u|--user|--proxy-user)[ =]{1,3}["']?[^\s:"']{1,256}:)(?!\d+\b)[^\s"']+""",
            rf"\1{HIDDEN}",
        ),  # of curl
        (rf"([?&](?:x-(?:amz|goog)-)?sig(?:nature)?=){VALUE}", rf"\1{HIDDEN}"),  # a signed address lets anybody in
        (r"\b(hooks\.slack\.com/)\w[\w/-]+", rf"\1{HIDDEN}"),
        (
            r"\b(?:(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}"
            r"|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{30,}|AIza[\w-]{35}|[rs]k_(?:live|test)_\w{10,}|npm_[A-Za-z0-9]{30,}"
            rf"|(?:sk|pypi)-{MIXED}[\w-]{{16,}})",
            HIDDEN,
        ),
        (r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*", HIDDEN),  # signed tokens of web services
    )
)
KEY_BEGIN, KEY_END = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?!.*-----END)"), "-----END"
OF_KEY = re.compile(r"\s*(?:[A-Za-z0-9+/=]*|(?:Proc-Type|DEK-Info):.*)\s*")
SIGNS = (
    *(
        "passw",
        "passphrase",
        "creds",
        "_pat",
        ".pat",
        "pwd",
        "secret",
        "token",
        "credential",
        "authorization",
        "cookie",
        "bearer",
    ),
    *("_key", "-key", ".key", "key=", "private key", "@", "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    *("github_pat_", "xox", "eyj", "sig=", "signature=", "hooks.slack", "glpat-", "hf_", "aiza"),
    *("sk_live", "sk_test", "rk_live", "rk_test", "npm_", "pypi-", "-u ", "-u=", '-u"', "-user"),
    *(f"{word}key" for word in KEYS.split("|")),
)
"""In lower case; every text a rule would change, and every name that hides its value, contains one of these, or"""
SIGN = re.compile(r"pass(?![a-z])|\bsk-")  # but not "passed" and "task-", which stand everywhere


LOGIN_FLAGS = ("-u", "--user", "--proxy-user")  # of curl and its like: name:password
PASSWORD_IN_ADDRESS = re.compile(r"""://[^\s/:@"']{0,256}:([^\s/@"']{1,512})@""")
FILE_NAME = re.compile(r"(?:FILE|PATH|DIR|HOME|SOCK|APPLICATION_CREDENTIALS)$", re.IGNORECASE)
FILE = re.compile(r"/(?:etc|home|root|run|var|usr|opt|tmp|mnt|srv|dev|proc|data|app|work|workspace|Users)/.*")


def redact(value: Any, depth: int = 0) -> Any:
    """Return the same value without its secrets; what it is made of is copied, never changed."""
    if isinstance(value, str):
        return redact_text(value)
    if depth > DEEPEST:
        return HIDDEN if isinstance(value, dict | list | tuple) else value
    if isinstance(value, dict):
        return {
            name: hidden(inner) if isinstance(name, str) and looks_secret(name) else redact(inner, depth + 1)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        before = (None, *value)
        return [
            HIDDEN if asks(flag, inner) else redact(inner, depth + 1)
            for flag, inner in zip(before, value, strict=False)
        ]
    return value


def asks(flag: object, value: object) -> bool:
    """Return whether a command's argument is the secret its flag before it asked for, as in ``--token abc``."""
    if not (isinstance(flag, str) and flag.startswith("-") and "=" not in flag and isinstance(value, str)):
        return False
    return not value.startswith("-") and (looks_secret(flag) or (flag in LOGIN_FLAGS and ":" in value))


def redact_text(text: str) -> str:
    if not suspicious(text):
        return text
    for value in KNOWN.values():
        text = text.replace(value, HIDDEN)
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    return text


class Redactor:
    """Takes secrets out of the lines of one log, one after the other: a private key goes over several of them."""

    def __init__(self) -> None:
        self.in_key = False

    def line(self, text: str) -> str:
        if self.in_key and (KEY_END in text or OF_KEY.fullmatch(text)):
            self.in_key = KEY_END not in text
            return HIDDEN
        self.in_key = KEY_BEGIN.search(text) is not None
        return redact_text(text)


def suspicious(text: str) -> bool:
    """Return whether a closer look is needed; never says no to a text that holds something to hide."""
    lowered = text.lower()
    for sign in SIGNS:  # every record passes here; ``any`` takes twice as long
        if sign in lowered:
            return True
    return SIGN.search(lowered) is not None or any(value in text for value in KNOWN.values())


class KnownSecrets:
    """Values of this process's environment variables, and of others it was told of, that have secret names."""

    def __init__(self) -> None:
        self.added: set[str] = set()
        self.known: tuple[str, ...] = ()
        self.looked = float("-inf")

    def values(self) -> tuple[str, ...]:
        if time.monotonic() - self.looked >= LOOK_AGAIN_S:
            self.looked = time.monotonic()
            own = self.of(os.environ)
            self.known = tuple(sorted(own | self.added, key=len, reverse=True))
        return self.known

    def add(self, environment: Mapping[str, str]) -> None:
        """Know those of another environment, too."""
        self.added |= self.of(environment)
        self.looked = float("-inf")

    @staticmethod
    def of(environment: Mapping[str, str]) -> set[str]:
        """As they are, and as they stand in JSON: quotes, backslashes and ends of lines look different there."""
        return {
            form
            for name, value in environment.items()
            for secret in secrets_in(name, value)
            if len(secret) >= SHORTEST_SECRET
            for form in (secret, json.dumps(secret, ensure_ascii=False)[1:-1])
        }


def secrets_in(name: str, value: str) -> tuple[str, ...]:
    """Return what of a variable nobody may read: all of it, the password in an address, or nothing."""
    if looks_secret(name) and not names_a_file(name, value):
        return (value,)
    return tuple(match[1] for match in PASSWORD_IN_ADDRESS.finditer(value))


def names_a_file(name: str, value: str) -> bool:
    """Return whether a variable says where a secret lies rather than what it is."""
    return value.startswith("/") and bool(FILE_NAME.search(name) or FILE.fullmatch(value))


@lru_cache(maxsize=4096)
def looks_secret(name: str) -> bool:
    """Return whether what has this name (a key, an environment variable) is likely a secret."""
    return SECRET_NAME.search(name) is not None


def hidden(value: Any) -> Any:
    """Return what stands for the value of a secret name. Mappings are judged by the names in them."""
    if isinstance(value, str | bytes):
        return HIDDEN
    if isinstance(value, list | tuple):
        return [hidden(inner) for inner in value]
    return redact(value)


KNOWN = KnownSecrets()
