"""Secrets of known forms and in the notations of other programs are taken out; what only looks like them stays."""

import random
import string

import pytest
from tracker_adapters import redaction
from tracker_adapters.artifacts import RunInfo
from tracker_adapters.redaction import MASK, redact, redact_config
from tracker_adapters.secret_names import is_secret_name, may_be_secret_name

_CHANCE = random.Random(0)


def letters(number, alphabet=string.ascii_letters + string.digits):
    """Returns a key's random part: made here, so that no text in this repository looks like a key."""
    return "7" + "".join(_CHANCE.choices(alphabet, k=number - 1))


def hexadecimal(number):
    return letters(number, "0123456789abcdef")


def capitals(number):
    return letters(number, string.ascii_uppercase + string.digits)


KEYS = {
    "age": "AGE-SECRET-KEY-1" + capitals(58),
    "airtable": f"pat{letters(14)}.{hexadecimal(64)}",
    "alibaba": "LTAI" + letters(20),
    "artifactory": "AKCp" + letters(69),
    "atlassian": "ATATT3" + letters(60),
    "aws": "AKIA" + capitals(16),
    "aws bedrock": "ABSK" + letters(120),
    "databricks": "dapi" + hexadecimal(32),
    "digitalocean": "dop_v1_" + hexadecimal(64),
    "discord": f"https://discord.com/api/webhooks/123456789/{letters(40)}",
    "docker hub": "dckr_pat_" + letters(27),
    "doppler": "dp.pt." + letters(43),
    "github": "ghp_" + letters(36),
    "github, fine": "github_pat_" + letters(82),
    "gitlab": "glpat-" + letters(20),
    "gitlab runner": "glrt-" + letters(20),
    "google": "AIza" + letters(35),
    "google hmac": "GOOG1E" + capitals(30),
    "google oauth": "ya29." + letters(40),
    "grafana": "glsa_" + letters(32) + "_" + hexadecimal(8),
    "groq": "gsk_" + letters(50),
    "hashicorp vault": "hvs." + letters(30),
    "hugging face": "hf_" + letters(34),
    "json web token": f"eyJ{letters(20)}.eyJ{letters(20)}.{letters(20)}",
    "langsmith": f"lsv2_pt_{hexadecimal(32)}_{hexadecimal(10)}",
    "linear": "lin_api_" + letters(40),
    "neptune": "eyJhcGlf" + letters(40),
    "new relic": "NRAK-" + capitals(27),
    "npm": "npm_" + letters(36),
    "openai": "sk-proj-" + letters(48),
    "perplexity": "pplx-" + letters(48),
    "postman": f"PMAK-{hexadecimal(24)}-{hexadecimal(34)}",
    "pulumi": "pul-" + hexadecimal(40),
    "pypi": "pypi-" + letters(60),
    "replicate": "r8_" + letters(37),
    "sendgrid": f"SG.{letters(22)}.{letters(43)}",
    "sentry": "sntryu_" + hexadecimal(64),
    "shopify": "shpat_" + hexadecimal(32),
    "slack": "xoxb-" + letters(40, string.digits),
    "slack app": "xapp-1-" + letters(40),
    "stripe": "sk_live_" + letters(24),
    "stripe webhook": "whsec_" + letters(32),
    "telegram": f"https://api.telegram.org/bot123456789:A{letters(34)}/send",
    "twilio": "SK" + hexadecimal(32),
    "wandb": "wandb_v1_" + letters(60),
    "wandb, of old": "wandb login " + hexadecimal(40),
}
SECRET = "hunter2abc"
NOTATIONS = (
    "pass={}", "pw={}", "'pw': '{}'", "DB_PASS={}", "smtp_pw: {}", "pass_word={}", "wandb_key: {}0123456789",
    '{{\\"password\\": \\"{}\\"}}',
    '{{\\\\\\"password\\\\\\": \\\\\\"{}\\\\\\"}}', 'password="""{}"""', "password='''{}'''",
    "password%3D{}%26x", "password%3A%20{}", "password: |\n  {}\n", "mysql -u root -p{}", "mysqldump -h db -p{} x",
    "curl -u user:{} https://x", "curl -s --user 'me:{}' https://x", "sshpass -p {} ssh h",
    "machine api.wandb.ai\n  login user\n  password {}", "machine h login me password {}", "the password is {}",
    "otp={}", "https://maps.example/x?q=1&key={}def456", "redis://:{}@host:6379/0",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n{}\n-----END PGP PRIVATE KEY BLOCK-----",
    "-----BEGIN EC PRIVATE KEY-----\\n{}\\n-----END EC PRIVATE KEY-----",
)  # fmt: skip
CONFIGURATIONS = (
    {"pass": SECRET}, {"db": {"pw": SECRET}}, {"pin": SECRET}, {"wandb_key": SECRET + "0123456789"},
    {"smtp-pass": SECRET},
    {"environment": [{"name": "API_KEY", "value": SECRET}]}, {"items": [["password", SECRET], ["lr", 1]]},
    {"username": "x", "key": SECRET + "0123456789"}, {"note": f"again {SECRET}", "secret": SECRET},
    {"seed_phrase": SECRET}, {"outer": '{"api_key": "' + SECRET + '"}'},
)  # fmt: skip
HARMLESS_NAMES = (
    "num_tokens", "tokenizer", "max_pass", "bypass", "password_length", "pass_rate", "compass", "key_dim", "passes",
    "pwm", "forward_pass", "low_pass", "n_pass", "pin_memory", "spin", "passive", "n_keys", "monkey", "turkey",
)  # fmt: skip
HARMLESS = (
    "pass: forward", "pass=2", "second pass: 3.5 s", "key=label", "key: layer1", "pin=True", "-p 8080:80",
    "commit 0123456789abcdef0123456789abcdef01234567", "https://h/x?key=label&y=1", "SKIP the rest", "the pass is done",
    "resnet50.a1_in1k", "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "vit_base_patch16_224.augreg2_in21k_ft_in1k", "python train.py -u --lr 0.1",
    "1795353010882:INFO loss 0.1", "patch_embed.proj.weight", "glue-sst2-classification-long-name",
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch):
    monkeypatch.setattr(redaction, "_remembered", set())


@pytest.mark.parametrize("vendor", KEYS)
def test_a_key_is_known_by_its_form(vendor):
    key = KEYS[vendor]
    for around in ("{}", "x={}", "failed with '{}'.", '{{"a": "{}"}}', "({})", "/tmp/{}/x"):
        assert key[-12:] not in redact(around.format(key)), around


@pytest.mark.parametrize("notation", NOTATIONS)
def test_a_password_is_found_in_other_notations(notation):
    shown = redact(f"before {notation.format(SECRET)}")
    assert SECRET not in shown
    assert shown.startswith("before ")
    assert redact(shown) == shown


@pytest.mark.parametrize("config", CONFIGURATIONS, ids=str)
def test_a_secret_is_found_in_a_configuration(config):
    info = RunInfo(id="1", name="r", config=config)
    assert SECRET not in repr(info)
    assert MASK in repr(info)


@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_a_name_with_such_a_word_in_it_is_harmless(name):
    assert not is_secret_name(name)
    assert not may_be_secret_name(name)
    config = {name: "resnet50", "other": {name: [3, "a1b2c3d4e5"]}}
    assert redact_config(config) == config


@pytest.mark.parametrize("text", HARMLESS)
def test_a_harmless_text_stays(text):
    assert redact(text) == text


def test_a_word_under_the_name_of_any_key_stays():
    config = {"key": "label", "dataset_key": "image_2", "query_key": "resnet50_imagenet_pretrained", "sort_key": "id"}
    assert redact_config(config) == config


@pytest.mark.parametrize("number", [3, 1234, True, None, 0.5])
def test_a_number_under_a_name_of_several_meanings_stays(number):
    assert redact_config({"pass": number, "key": number, "pin": number}) == {
        "pass": number,
        "key": number,
        "pin": number,
    }


def test_a_private_key_that_comes_line_by_line_is_held_until_its_end():
    class Kept:
        text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    kept = Kept()
    stream = redaction.RedactingStream(kept)
    for line in ("a", "-----BEGIN RSA PRIVATE KEY-----", SECRET, SECRET, "-----END RSA PRIVATE KEY-----", "b"):
        stream.write(line + "\n")
    assert kept.text == f"a\n{MASK}\nb\n"
