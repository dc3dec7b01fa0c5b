"""Secrets leave no trace in what is written down; everything else stays as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalable.observe.journal import line_of, text_of
from scalable.observe.redact import HIDDEN, KNOWN, Redactor, redact, redact_text, secrets_in, suspicious

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://lab:{SECRET}@db.example.org:5432/results",
        f"https://{SECRET}@git.example.org/lab/model.git",
        f"connecting with password={SECRET} failed",
        f"DB_PASSWORD={SECRET} python model.py",
        f"export API_KEY='{SECRET}'",
        f"aws_secret_access_key = {SECRET}",
        f'{{"token": "{SECRET}"}}',
        f"{{'client_secret': '{SECRET}'}}",
        f"model --token {SECRET} --fast",
        f"model --db-password={SECRET}",
        f"GET /tiles?key={SECRET}&zoom=3",
        f"Authorization: Bearer {SECRET}",
        f"Authorization: Basic {SECRET}",
        f"refused: Bearer {SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f"mysql://root:{SECRET}@x@host/db",
        f"mysql://root:a/{SECRET}@host/db",
        f"Cookie: theme=dark; session={SECRET}",
        f"{{'Set-Cookie': 'session={SECRET}; Path=/'}}",
        f"403 for https://bucket.example.org/rows?X-Amz-Expires=60&X-Amz-Signature={SECRET}",
        f"https://account.example.org/rows?se=2031&sig={SECRET}",
        f"https://hooks.slack.com/services/T0/B0/{SECRET}",
        f"DB_PASS={SECRET} PGPASS={SECRET} python model.py",
        f"login with pass={SECRET}",
        f"OPENAI_KEY={SECRET}",
        f"FERNET_KEY: {SECRET}",
        f"{{'AZURE_STORAGE_KEY': b'{SECRET}'}}",
        f"export GH_PAT={SECRET}",
        f"password=b'a {SECRET}'",
        f"curl -s -u lab:{SECRET} https://example.org",
        f"curl --user=lab:{SECRET} https://example.org",
        f"curl -ulab:{SECRET} https://example.org",
        f"curl -sSu lab:{SECRET} https://example.org",
        f'curl -u "lab:my {SECRET}" https://example.org',
        f"pass: {SECRET}",
        f'{{"user": "lab", "pass": "{SECRET}"}}',
        f"model --pass {SECRET}",
        f"db-pass={SECRET}",
        f"pgpass={SECRET} dbPass: {SECRET} userpass = {SECRET}",
        f"stripe_key={SECRET}",
        f"token => {SECRET}",
        f"password := {SECRET}",
        f'{{\\"password\\": \\"{SECRET}\\"}}',
        f"password='it\\'s {SECRET}'",
        f"LAB_AUTH={SECRET} LAB_PW={SECRET}",
        f"Server=db;Uid=lab;Pwd={SECRET};",
        f"AccountName=lab;AccountKey={SECRET}==;EndpointSuffix=x",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{SECRET}\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
)
def test_a_secret_in_a_text_is_hidden(text: str) -> None:
    assert SECRET not in redact_text(text)
    assert HIDDEN in redact_text(text)


@pytest.mark.parametrize(
    "text",
    [
        *("ghp_" + "a1" * 12, "github_pat_" + "a1" * 12, "AKIA" + "A1B2" * 4, "eyJ" + "a" * 12 + "." + "b" * 12 + ".c"),
        *("glpat-" + "a1" * 10, "hf_" + "a1" * 17, "AIza" + "a1b2c" * 7),
        *(
            "sk-proj-" + "aB3-" * 8,
            "sk-" + "aB3x" * 8,
            "sk_live_" + "aB3x" * 6,
            "npm_" + "aB3x" * 9,
            "pypi-" + "AgEIcHl1" * 4,
            "pypi-" + "agebcdef" * 10,
            "sk-or-v1-" + "0a1b2c3d" * 8,
            "sk-proj-" + "abcdefgh" * 4,
            "dckr_pat_" + "a1B2" * 6,
            "hvs." + "a1B2" * 6,
            "glsa_" + "a1B2" * 8,
            "SG." + "a1B2" * 5 + "." + "a1B2" * 9,
            "ya29." + "a1B2" * 9,
            "xapp-1-" + "a1B2" * 6,
        ),
    ],
)
def test_a_secret_that_shows_by_its_shape_is_hidden(text: str) -> None:
    assert redact_text(f"cloning with {text} now") == f"cloning with {HIDDEN} now"


@pytest.mark.parametrize(
    "name",
    [
        *("password", "DB_PASSWORD", "db-passwd", "MYSQL_PWD", "token", "HF_TOKEN", "githubToken", "client_secret"),
        *("AWS_SECRET_ACCESS_KEY", "api_key", "apiKey", "x-api-key", "ssh_key", "credentials", "passphrase", "Cookie"),
        *("DB_PASS", "PGPASS", "db_pass", "OPENAI_KEY", "FERNET_KEY", "AZURE_STORAGE_KEY", "GH_PAT", "STRIPE_KEY"),
        *("pass", "db-pass", "pgpass", "userPass", "stripe_key", "LAB_AUTH", "lab_pw", "AccountKey"),
    ],
)
def test_a_value_with_the_name_of_a_secret_is_hidden(name: str) -> None:
    assert redact({"env": {name: SECRET, "HOME": "/home/lab"}}) == {"env": {name: HIDDEN, "HOME": "/home/lab"}}
    assert redact({name: [SECRET, SECRET]}) == {name: [HIDDEN, HIDDEN]}


@pytest.mark.parametrize(
    "name",
    [
        *("key", "name", "tokenizer", "PWD", "OLDPWD", "worker", "keyboard", "monkey", "author", "compass", "BYPASS"),
        *("PATH", "path", "row_key", "stage_key", "PRIMARY_KEY", "PUBLIC_KEY", "passed", "pattern", "KEYMAP"),
        *("storage_key", "cache_key", "sort_key", "max_tokens", "token_count", "auth_mode"),
    ],
)
def test_a_value_with_an_innocent_name_stays(name: str) -> None:
    assert redact({name: "inc-1234"}) == {name: "inc-1234"}


def test_numbers_are_no_secrets_whatever_they_are_called() -> None:
    record = {"token": 512, "tasks": {"token-counter": {"waiting": 3}}, "peaks": {"secret-sauce": 10**9}}
    assert redact(record) == record


def test_the_argument_after_a_flag_that_asks_for_a_secret_is_hidden() -> None:
    command = ["scalable", "run", "--token", SECRET, "--fast", "--password", "--target", "hpc"]
    assert redact(command) == ["scalable", "run", "--token", HIDDEN, "--fast", "--password", "--target", "hpc"]


def test_the_user_and_the_place_in_an_address_stay_readable() -> None:
    assert redact_text(f"postgresql://lab:{SECRET}@db:5432/results") == f"postgresql://lab:{HIDDEN}@db:5432/results"
    assert redact_text("ssh://git@example.org/lab.git") == "ssh://git@example.org/lab.git"
    assert redact_text("tcp://10.0.0.1:8786 and lab@example.org") == "tcp://10.0.0.1:8786 and lab@example.org"


@pytest.mark.parametrize(
    "text",
    [
        "PASS: 12 of 12 checks, pass 3 of 5; bypassed 0",
        "pip install --user scikit-learn && docker run -u 1000:1000 model",
        "key 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "/home/lab/run-20310101T000000Z-lab-0a1b2c3d/journal.jsonl at 10:32:05",
        "sk-learn-pipeline-with-a-long-name and task-force-of-many-words-in-lower-case",
        "installed pypi-attestations-of-some-kind 0.1 from npm_config_cache",
        "fold 3 of 5: loss=0.123, lr=1e-3, model=xgb_v2, device=cuda:0, key: A 1 fold 0",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 image registry/lab:1.2",
        "cache_key=9f86d081, row_key=a/b/c, sort_key=name, storage_key=runs/1/x.bin; sorted(rows, key=len)",
        "max_tokens=4096 token_count=12 pass=3, first pass=12.3s; low_pass=0.3 test_pass=10 has_token: false",
        "python -u train.py:main && docker run -u lab:lab model",
        "Unexpected token: '}' in 2nd pass: loading; PASS: tests/a.py in asiapacificnortheast1, PWD=/home/lab",
    ],
)
def test_ordinary_lines_survive(text: str) -> None:
    assert redact_text(text) == text


def test_the_login_of_a_command_is_hidden() -> None:
    assert redact(["curl", "-u", f"lab:{SECRET}", "-u", "lab"]) == ["curl", "-u", HIDDEN, "-u", "lab"]


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("LAB_TOKEN", "/q9+Zk3vT0aaXw==", ("/q9+Zk3vT0aaXw==",)),
        ("LAB_TOKEN", "/run/secrets/token", ()),
        ("LAB_TOKEN_FILE", "/q9/Zk3vT0aa", ()),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/keys/lab.json", ()),
        ("DATABASE_URL", f"postgresql://lab:{SECRET}@db/results", (SECRET,)),
        ("HOME", "/home/lab", ()),
    ],
)
def test_what_is_secret_of_a_variable(name: str, value: str, secrets: tuple[str, ...]) -> None:
    assert secrets_in(name, value) == secrets


def test_a_long_line_of_a_secret_of_several_lines_is_hidden_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_SECRET", "first line of the secret\nand\nlast line of the secret")
    monkeypatch.setattr(KNOWN, "looked", float("-inf"))
    assert redact_text("last line of the secret and more") == f"{HIDDEN} and more"


def test_what_is_passed_in_is_not_changed() -> None:
    record = {"password": SECRET, "inner": [{"token": SECRET}]}
    redact(record)
    assert record == {"password": SECRET, "inner": [{"token": SECRET}]}


def test_a_very_long_text_takes_no_time() -> None:
    for text in ("a" * 10**5, "password" * 10**4, "://" * 10**4, "token=" * 10**4, "--" * 10**4, "x_" * 10**4 + "key="):
        redact_text(text)


def test_the_lines_of_a_private_key_are_hidden_where_a_log_is_read_line_by_line() -> None:
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    key = [begin, "Proc-Type: 4,ENCRYPTED", "", "MIIEpAIBAAKCAQEA7bq+/x8M", "c2VjcmV0", end]
    log = ["epoch 1 of 3", *key, "sha=abc", "done", begin, "MIIEpAIBAAKCAQEA", "epoch 2 of 3", "done"]
    redactor = Redactor()
    shown = [redactor.line(line) for line in log]
    assert shown[0] == "epoch 1 of 3" and shown[7:9] == ["sha=abc", "done"] and shown[-2:] == ["epoch 2 of 3", "done"]
    assert shown[2:7] == [HIDDEN] * 5 and shown[10] == HIDDEN


def test_nesting_without_end_is_cut() -> None:
    deep: list[Any] = [SECRET]
    for _ in range(500):
        deep = [deep]
    assert SECRET not in json.dumps(redact(deep))


@pytest.mark.parametrize("secret", ['quo"te-of-the-lab', "back\\slash-of-the-lab", "two\nlines-of-the-lab"])
def test_a_known_secret_is_found_in_a_record_where_json_writes_it_otherwise(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_TOKEN", secret)
    monkeypatch.setattr(KNOWN, "looked", float("-inf"))
    record = {"t": 1.0, "kind": "note", "text": f"no answer to {secret}, nor to {json.dumps(secret)}"}
    hidden = f'no answer to {HIDDEN}, nor to "{HIDDEN}"'
    assert json.loads(line_of(record))["text"] == json.loads(text_of(record))["text"] == hidden


words = st.sampled_from(
    [
        "password",
        "=",
        ":",
        " ",
        "token",
        "--",
        "key=",
        "://",
        "@",
        "u",
        "x",
        "api",
        "_key",
        "bearer ",
        '"',
        "secret",
        "é",
    ]
)
texts = st.one_of(st.text(), st.lists(words, max_size=12).map("".join))
records = st.recursive(
    st.one_of(texts, st.integers(), st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=10,
)


@given(records)
def test_the_quick_look_never_lets_a_secret_pass(record: Any) -> None:
    if redact(record) != record:
        assert suspicious(json.dumps(record, ensure_ascii=False))


@given(texts)
def test_hiding_twice_is_the_same_as_once(text: str) -> None:
    assert redact_text(redact_text(text)) == redact_text(text)
