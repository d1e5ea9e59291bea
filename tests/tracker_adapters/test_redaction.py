"""No secret leaves a configuration or a text, and what is no secret stays."""

import io
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters import redaction
from tracker_adapters.artifacts import RunInfo
from tracker_adapters.errors import RunExistsError, SinkConfigError
from tracker_adapters.redaction import MASK, RedactingStream, redact, redact_config
from tracker_adapters.secret_names import is_secret_name
from tracker_adapters.sink import checked_options
from tracker_adapters.testing import MemoryEmitter

SECRET_NAMES = (
    "password", "db_password", "DB_PASSWD", "pwd", "passphrase", "secret", "client_secret", "clientSecret", "api_key",
    "apiKey", "OPENAI_API_KEY", "token", "hf_token", "accessToken", "api_tokens", "github_token",
    "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "private_key", "ssh_key", "credential", "credentials",
    "Authorization", "auth", "cookie", "Set-Cookie", "--api-key", "dbpassword", "optim.api_key", "session_key",
)  # fmt: skip
PLAIN_NAMES = (
    "tokenizer", "max_tokens", "n_tokens", "token_dim", "tokens", "pad_token", "eos_token", "mask_token", "use_token",
    "cls_token", "pad_token_id", "token_type_ids", "loss_per_token", "audio_token", "vocab_token", "max_new_tokens",
    "monkey", "keyboard", "key", "keys", "primary_key", "key_dim", "query_key_value", "author", "secretary",
    "password_file", "token_path", "AWS_SHARED_CREDENTIALS_FILE", "SSH_AUTH_SOCK", "TOKENIZERS_PARALLELISM", "compass",
    "bypass",
)  # fmt: skip
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
GIVEN_AWAY = {
    "postgresql://me:hunter2@db:5432/x": "postgresql://***@db:5432/x",
    "mysql://me:p@ss/w@db/x": "mysql://***@db/x",
    "https://only-a-token@host/path": "https://***@host/path",
    "https://b.s3.amazonaws.com/k?X-Amz-Signature=abc&x=1": "https://b.s3.amazonaws.com/k?X-Amz-Signature=***&x=1",
    "train.py --password hunter2 --lr 3": "train.py --password *** --lr 3",
    "train.py --api-key=hunter2": "train.py --api-key=***",
    "{'password': 'hunter 2', 'lr': 3}": "{'password': '***', 'lr': 3}",
    '{"headers": {"token": "hunter2"}}': '{"headers": {"token": "***"}}',
    "password: hunter2": "password: ***",
    "password=b'hunter2'": "password='***'",
    r'{"password": "he said \"x\" hunter2"}': '{"password": "***"}',
    "get(url, auth=('me', 'hunter2'), n=3)": "get(url, auth=***, n=3)",
    "secrets: ['hunter2', 'b']": "secrets: ***",
    "Cookie: sid=hunter2; user=me": "Cookie: ***",
    "{'Set-Cookie': 'sid=hunter2; path=/', 'n': 3}": "{'Set-Cookie': '***', 'n': 3}",
    "at https://hooks.slack.com/services/T0/B0/hunter2": "at https://***",
    "Authorization: Bearer hunter2": "Authorization: Bearer ***",
    "sent Bearer abcdef0123456789": "sent Bearer ***",
    "key AKIAIOSFODNN7EXAMPLE.": "key ***.",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345": MASK,
    "sk-proj-0123456789abcdefghij": MASK,
    "hf_0123456789abcdefghij": MASK,
    f"jwt {JWT} end": "jwt *** end",
    f"key:\n{PEM}\nend": "key:\n***\nend",
}
HARMLESS = (
    "http://127.0.0.1:5000/users/me@example.com",
    "unexpected token: 'abc'",
    "aiobotocore.credentials: Found them",
    "risk-averse-and-many-more-words-1",
    "password==None",
    "auth: (see the manual)",
    "the basic understanding of tokens: none",
    "lr=0.1, max_tokens=512, tokenizer=gpt2",
    "s3://bucket/runs/exp1",
)


@pytest.fixture(autouse=True, scope="module")
def nothing_remembered_after():
    # A process remembers what was a secret once; what is one here may be an ordinary text in another test.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_remembered", set())
        yield


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_name_that_says_secret_is_one(name):
    assert is_secret_name(name)
    assert redact_config({name: "x y", "other": [{name: 12345}]}) == {name: MASK, "other": [{name: MASK}]}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_a_name_that_only_sounds_like_it_is_none(name):
    assert not is_secret_name(name)
    assert redact_config({name: ["a", 3, 0.5]}) == {name: ["a", 3, 0.5]}


@pytest.mark.parametrize("text", GIVEN_AWAY)
def test_a_text_keeps_all_but_its_secrets(text):
    assert redact(text) == GIVEN_AWAY[text]
    assert redact(GIVEN_AWAY[text]) == GIVEN_AWAY[text]


@pytest.mark.parametrize("text", HARMLESS)
def test_a_text_without_secrets_stays(text):
    assert redact(text) == text


def test_values_of_secret_variables_are_found_anywhere(monkeypatch):
    monkeypatch.setenv("MY_SERVICE_TOKEN", "zanzibar-4711")
    monkeypatch.setenv("OTHER_PASSWORD", "training")  # an ordinary word
    monkeypatch.setenv("SHORT_SECRET", "a1")
    assert redact("xzanzibar-4711y in training a1") == "x***y in training a1"
    assert redact_config({"note": "is zanzibar-4711"}) == {"note": "is ***"}


def test_what_was_secret_once_is_secret_in_every_text():
    assert redact("refused zanzibar-4712 and qx7-zanzibar") == "refused zanzibar-4712 and qx7-zanzibar"
    redact_config({"api_key": "zanzibar-4712", "db": "postgresql://me:qx7-zanzibar@host", "secret": "training"})
    assert redact("refused zanzibar-4712 and qx7-zanzibar in training") == "refused *** and *** in training"


def test_what_lies_under_a_secret_key_is_secret_at_any_depth():
    config = {"credentials": {"user": "me", "parts": ["a", 1], "on": True, "none": None}, "api_key": ""}
    assert redact_config(config) == {
        "credentials": {"user": MASK, "parts": [MASK, MASK], "on": True, "none": None},
        "api_key": "",
    }


def test_arguments_behind_a_secret_option_are_secret():
    argv = ["train.py", "--password", "hunter2", "--token", "--lr", "0.1", "--api-key=hunter2"]
    assert redact_config({"argv": argv})["argv"] == [
        "train.py", "--password", MASK, "--token", MASK, "0.1", "--api-key=***",
    ]  # fmt: skip


def test_what_is_known_of_a_run_has_no_secrets():
    info = RunInfo(id="1", name="run password=hunter2", config={"db": {"password": "hunter2"}}, tags=["token=hunter2"])
    assert "hunter2" not in repr(info)
    assert info.config == {"db": {"password": MASK}}


@pytest.mark.parametrize("cls", [SinkConfigError, RunExistsError])
def test_our_errors_show_no_secrets(cls):
    error = cls("target is 'http://me:hunter2@host'")
    assert (str(error), error.args) == ("target is 'http://***@host'", ("target is 'http://***@host'",))


def test_a_wrong_option_is_named_without_its_secret():
    with pytest.raises(SinkConfigError, match=r"option 'api_key' is '\*\*\*'; expected a str"):
        checked_options("x", {"api_key": 471100}, {"api_key": str})


def test_alerts_show_no_secrets_and_texts_are_the_users():
    emitter = MemoryEmitter()
    emitter.alert("failed", repr(OSError("http://me:hunter2@host refused")), step=0)
    emitter.text("notes", "password=hunter2", step=0)
    alert, text = emitter.artifacts
    assert alert.message == "OSError('http://***@host refused')"  # type: ignore[attr-defined]
    assert text.text == "password=hunter2"  # type: ignore[attr-defined]


def test_a_stream_redacts_lines_that_come_in_pieces():
    kept = io.StringIO()
    stream = RedactingStream(kept)
    for piece in ("one pass", "word=hunt", "er2\ntwo token=", "hunter2"):
        stream.write(piece)
    stream.flush()
    assert kept.getvalue() == "one password=***\ntwo token=***"


@given(st.text(max_size=80))
def test_any_text_is_redacted_once_and_for_all(text):
    redacted = redact(text)
    assert redact(redacted) == redacted


@given(
    st.dictionaries(
        st.sampled_from([*SECRET_NAMES, *PLAIN_NAMES]),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.text()),
            lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.sampled_from(PLAIN_NAMES), inner)),
            max_leaves=10,
        ),
    )
)
def test_any_configuration_keeps_its_shape(config):
    redacted = redact_config(config)
    assert redact_config(redacted) == redacted
    assert list(redacted) == list(config)
    assert json.loads(json.dumps(redacted)) == redacted


def test_a_long_text_takes_linear_time():
    pieces = (
        "a:", "://u:", "cookie:a", "auth=(", "password='\\\\", "password ", "-----BEGIN RSA PRIVATE KEY-----", '"',
        "eyJaaaaaaaaa.", "pass=", "?key=a", "auth:", "curl -u a", "machine a login b ", "password is a",
        "password: |\n  aaaa", "wandb ", "A3-AAAAAA-", "\\\\",
    )  # fmt: skip
    for piece in pieces:
        text = piece * (25_000 // len(piece))
        started = time.thread_time()
        assert len(redact(text)) <= len(text) + len(MASK)
        assert time.thread_time() - started < 2, piece  # a fortieth of a second; quadratic time is seven
