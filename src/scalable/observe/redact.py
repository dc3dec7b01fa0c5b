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
LONG_LINE = 16  # characters of one line of it
LOOK_AGAIN_S = 1.0  # at the environment
DEEPEST = 50  # levels of nesting that are looked at; what lies deeper is hidden

KEYS = (
    "api|access|private|signing|encryption|account|auth|ssh|license|shared"
    "|openai|anthropic|fernet|master|client|deploy|service|session|hmac"
    "|stripe|twilio|sendgrid|mailgun|datadog|wandb|binance|kraken|coinbase|alpaca|polygon|azure_storage|azurestorage"
)
STRONG = rf"(?:passw(?:or)?d|passphrase|secret|credential|(?:{KEYS})[_.-]?key|authorization|cookie)"
WEAK = (
    r"(?:(?<!max_)(?<!max-)(?<!num_)(?<!n_)token(?!i[sz]|s?[_.-]?(?:count|limit|length|usage|budget|rate|per))"
    r"|(?<=[_.-])pwd|(?<=[_.-])(?:pass|creds|pat)(?![a-z])|(?<=[_.-])(?:auth|pw)(?![\w.-])"  # db_pass, GH_PAT, X_AUTH
    r"|(?<![a-z])(?:pg|db|my|sql|user|root|admin|smtp|mail|ftp|ldap|redis|http|proxy)pass(?![a-z])"  # pgpass
    r"|(?-i:(?<=[A-Z0-9])(?<!BY)(?<!COM)PASS(?![A-Za-z]))"  # PGPASS
    r"|(?-i:(?<=[A-Z0-9])(?<!PUBLIC)(?<!PRIMARY)(?<!FOREIGN)(?<!SORT)(?<!CACHE)_KEY(?![A-Za-z])))"  # BINANCE_KEY
)
NAME = rf"(?:{STRONG}|{WEAK})"
GIVES = r"""(?:\\*["'])?\s{0,3}(?::=|=>|[=:])\s{0,3}"""  # what stands between a name and its value
VALUE = (
    r"""(?:[bruf]{0,2}"(?:\\.|[^"\\])*"?|[bruf]{0,2}'(?:\\.|[^'\\])*'?|\\+["'][^"'\\]*(?:\\+["'])?"""
    r"""|[^\s,;&"'}\])]+)"""
)
PLAIN = (  # counts, times, yes and no, and marks of punctuation: no secrets, whatever they are called
    r"""(?!["']?(?:[-+]?\d{1,9}(?:\.\d{1,9})?\s?(?:%|[a-z]{1,3})?|true|false|none|null|yes|no|[^\w\s"'\\*]{1,3})["']?"""
    r"(?:[\s,;&)}\]]|\Z))"
)
MIXED = r"(?=[\w-]{0,200}\d)(?=[\w-]{0,200}(?-i:[A-Z]))"  # as keys are and names are not
RANDOM = r"(?-i:(?=[^\s,;&]{0,200}\d)(?=[^\s,;&]{0,200}[A-Z])(?=[^\s,;&]{0,200}[a-z]))[\w+/=.~-]{16,}"
SECRET_NAME = re.compile(rf"{NAME}|\Apass\Z", re.IGNORECASE)

ADDRESS_SIGNS = ("@",)
PASS_SIGNS = ("pass",)
KEY_SIGNS = ("_key", "-key", ".key", *(f"{word}key" for word in KEYS.split("|")))
STRONG_SIGNS = ("passw", "passphrase", "secret", "credential", "authorization", "cookie", *KEY_SIGNS)
WEAK_SIGNS = (
    *("token", "_key", "pass", "_pwd", "-pwd", ".pwd", "creds", "_pat", "-pat", ".pat"),
    *("_auth", "-auth", ".auth", "_pw", "-pw", ".pw"),
)
TOKEN_SIGNS = (
    *("akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "xox", "xapp-", "glpat-", "hf_", "aiza"),
    *("sk_live", "sk_test", "rk_live", "rk_test", "npm_", "pypi-", "sk-", "dckr_pat_", "hvs.", "glsa_", "sg.", "ya29."),
)
RULES = tuple(
    (signs, re.compile(pattern, re.IGNORECASE | re.DOTALL), replacement)
    for signs, pattern, replacement in (
        (
            ("private key",),
            r"(-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----).*?(-----END|\Z)",
            rf"\1{HIDDEN}\2",
        ),
        # postgresql://user:password@host; user:pass/word, no port; https://token@host
        (ADDRESS_SIGNS, r"""(://[^\s/:@"']{0,256}:)[^\s/"']{1,512}@""", rf"\1{HIDDEN}@"),
        (ADDRESS_SIGNS, r"""(://[^\s/:@"']{0,256}:)(?!\d{1,5}/)[^\s@"']{1,512}@""", rf"\1{HIDDEN}@"),
        (ADDRESS_SIGNS, r"""(https?://)[^\s/:@"']{1,256}@""", rf"\1{HIDDEN}@"),
        (
            ("authorization",),
            r"""(authorization["']?\s{0,3}[=:]\s{0,3}["']?)(?:\w{1,20}\s{1,3})?[^\s"',]+""",
            rf"\1{HIDDEN}",
        ),
        (("bearer",), r"\b(bearer\s{1,3})[\w.~+/=-]{6,}", rf"\1{HIDDEN}"),
        (
            ("cookie",),
            r"""(cookie["']?\s{0,3}:\s{0,3}["']?)[^\s=;"']{1,256}=[^\r\n"']*""",
            rf"\1{HIDDEN}",
        ),  # Cookie: a=b; c=d
        (STRONG_SIGNS, rf"({STRONG}[\w.-]{{0,40}}{GIVES}){VALUE}", rf"\1{HIDDEN}"),  # DB_PASSWORD=abc
        (WEAK_SIGNS, rf"({WEAK}[\w.-]{{0,40}}{GIVES}){PLAIN}{VALUE}", rf"\1{HIDDEN}"),  # API_TOKEN=abc
        (
            (*STRONG_SIGNS, *WEAK_SIGNS),
            rf"(--[\w-]{{0,40}}(?:{NAME}|(?<=--)pass)[\w-]{{0,40}}\s{{1,3}})(?!-){PLAIN}{VALUE}",
            rf"\1{HIDDEN}",
        ),  # --token abc
        (("?key=", "&key="), rf"([?&]key=){VALUE}", rf"\1{HIDDEN}"),
        (("key=",), rf"(key=){RANDOM}", rf"\1{HIDDEN}"),
        (PASS_SIGNS, rf"((?<![\w-])pass=){PLAIN}{VALUE}", rf"\1{HIDDEN}"),
        (
            PASS_SIGNS,
            rf"((?:^|(?<=[\n{{,])|(?<=[{{,]\s))[ -]{{0,40}}(?-i:pass):\s{{1,3}}){PLAIN}{VALUE}",
            rf"\1{HIDDEN}",
        ),
        (PASS_SIGNS, rf"""(\\*["']pass\\*["']\s{{0,3}}(?:=>|:)\s{{0,3}}){PLAIN}{VALUE}""", rf"\1{HIDDEN}"),
        (("pwd=",), r"(\bpwd=)(?![/~])[^\s;\"']+", rf"\1{HIDDEN}"),  # of a connection: Uid=lab;Pwd=abc;
        (
            ("curl",),
            r"""(\bcurl\b[^\n|]{0,400}?\s(?:-[a-zA-Z]{0,8}u|--user|--proxy-user)[ =]{0,3})"""
            r"""(?:("[^":]{1,256}:)[^"]+|('[^':]{1,256}:)[^']+|([^\s:"']{1,256}:)[^\s"']+)""",
            rf"\1\2\3\4{HIDDEN}",
        ),
        (
            ("sig=", "signature="),
            rf"([?&](?:x-(?:amz|goog)-)?sig(?:nature)?=){VALUE}",
            rf"\1{HIDDEN}",
        ),  # a signed address lets anybody in
        (("hooks.slack",), r"\b(hooks\.slack\.com/)\w[\w/-]+", rf"\1{HIDDEN}"),
        (
            TOKEN_SIGNS,
            r"\b(?:(?-i:(?:AKIA|ASIA)[0-9A-Z]{16})|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}"
            r"|xapp-[\w-]{10,}|glpat-[\w-]{20,}|hf_[A-Za-z0-9]{30,}|AIza[\w-]{35}|[rs]k_(?:live|test)_\w{10,}"
            r"|npm_[A-Za-z0-9]{30,}|dckr_pat_[\w-]{20,}|hvs\.[\w-]{20,}|glsa_\w{20,}|(?-i:SG)\.[\w-]{16,}\.[\w-]{16,}"
            rf"|ya29\.[\w-]{{20,}}|(?:sk|pypi)-{MIXED}[\w-]{{16,}}|pypi-[\w-]{{60,}}"
            r"|sk-(?:proj|or-v1|ant|svcacct|admin)-[\w-]{20,}|sk-(?=[a-z]{0,40}\d)[a-z0-9]{32,})",
            HIDDEN,
        ),
        (("eyj",), r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*", HIDDEN),  # signed tokens of web services
    )
)
"""Signs, in lower case, of which a text has one if the rule changes it; what to look for; what to put there."""
SHAPES = tuple(pattern for signs, pattern, _ in RULES if signs in (TOKEN_SIGNS, ("eyj",), ("private key",)))
KEY_BEGIN, KEY_END = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?!.*-----END)"), "-----END"
OF_KEY = re.compile(r"\s*(?:[A-Za-z0-9+/=]*|(?:Proc-Type|DEK-Info|Version|Comment|Hash):.*)\s*")
LOOSE = {"pass": re.compile(r"pass(?![a-z])"), "sk-": re.compile(r"\bsk-"), "sg.": re.compile(r"\bsg\.")}
"""Signs that stand everywhere ("passed", "task-", "msg."), and what is looked for in a text that has one of them."""
SIGNS = tuple(sorted({sign for signs, _, _ in RULES for sign in signs if sign not in LOOSE}, key=len))
"""Every text a rule would change, and every name that hides its value, contains one of these or of the loose ones."""


LOGIN_FLAG = re.compile(r"-[a-zA-Z]{0,8}u|--user|--proxy-user")  # of curl: name:password
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
        login = any(isinstance(word, str) and word.endswith("curl") for word in value)
        return [
            HIDDEN if asks(flag, inner) or (login and logs_in(flag, inner)) else redact(inner, depth + 1)
            for flag, inner in zip(before, value, strict=False)
        ]
    return value


def asks(flag: object, value: object) -> bool:
    """Return whether a command's argument is the secret its flag before it asked for, as in ``--token abc``."""
    if not (isinstance(flag, str) and flag.startswith("-") and "=" not in flag and isinstance(value, str)):
        return False
    return not value.startswith("-") and looks_secret(flag.lstrip("-"))


def logs_in(flag: object, value: object) -> bool:
    """Return whether an argument of curl holds a name and a password: ``-u lab:abc``, or ``-ulab:abc`` in one."""
    if not isinstance(value, str) or ":" not in value:
        return False
    return (isinstance(flag, str) and LOGIN_FLAG.fullmatch(flag) is not None) or re.match(r"-u[^-]", value) is not None


def redact_text(text: str) -> str:
    if not suspicious(text):
        return text
    for value in KNOWN.values():
        text = text.replace(value, HIDDEN)
    lowered = text.lower()
    for signs, pattern, replacement in RULES:
        for sign in signs:
            if sign in lowered:
                text = pattern.sub(replacement, text)
                break
    return text


def shows_secret(text: str) -> bool:
    """Return whether a text holds a known secret or one that shows by its shape, whatever stands around it."""
    return any(value in text for value in KNOWN.values()) or any(shape.search(text) for shape in SHAPES)


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
    if any(sign in lowered and pattern.search(lowered) for sign, pattern in LOOSE.items()):
        return True
    return any(value in text for value in KNOWN.values())


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
        """Return values as they are, and as they stand in JSON: quotes and line ends look different there."""
        return {
            form
            for name, value in environment.items()
            for secret in secrets_in(name, value)
            for part in (secret, *long_lines(secret))
            if len(part) >= SHORTEST_SECRET
            for form in (part, json.dumps(part, ensure_ascii=False)[1:-1])
        }


def secrets_in(name: str, value: str) -> tuple[str, ...]:
    """Return what of a variable nobody may read: all of it, the password in an address, or nothing."""
    if looks_secret(name) and not names_a_file(name, value):
        return (value,)
    return tuple(match[1] for match in PASSWORD_IN_ADDRESS.finditer(value))


def long_lines(secret: str) -> list[str]:
    """Return the lines of a secret of several lines, as a program prints them one by one; a short one may be a word."""
    lines = [line.strip() for line in secret.splitlines()]
    return [line for line in lines if len(line) >= LONG_LINE and not line.startswith("-----")] if len(lines) > 1 else []


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
