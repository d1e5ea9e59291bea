"""Forms of secrets that are known by themselves, without a name beside them.

The prefixes and alphabets are those of the vendors' own documentation, as gitleaks 8 collects them
(``config/gitleaks.toml``, MIT licence); lengths are lower bounds, since vendors lengthen their keys. A new vendor is a
line here. Each pattern begins with fixed letters and has one repeated class at a time, so that searching takes linear
time.
"""

import re
from collections.abc import Callable
from functools import cached_property


class Pattern:
    """A regular expression that is compiled when it is first used: importing what measures need not wait for it."""

    def __init__(self, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> None:
        self._pattern, self._flags = pattern, flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._pattern, self._flags)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
        """As ``re.Pattern.sub``."""
        return self._compiled.sub(replacement, text)

    def findall(self, text: str) -> list[str]:
        """As ``re.Pattern.findall``."""
        return self._compiled.findall(text)


_WORD_FORMS = {
    "1Password": r"ops_eyJ[A-Za-z0-9+/]{40,}|A3-[A-Z0-9]{6}-[A-Z0-9-]{20,}",
    "age": r"AGE-SECRET-KEY-1[A-Z0-9]{40,}",
    "Airtable": r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    "Alibaba Cloud": r"LTAI[A-Za-z0-9]{16,}(?![A-Za-z0-9])",
    "Artifactory": r"AKCp[A-Za-z0-9]{60,}|cmVmd[A-Za-z0-9]{50,}",
    "Atlassian": r"ATATT3[\w=-]{40,}",
    "AWS": r"(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])|ABSK[A-Za-z0-9+/]{60,}"
    r"|bedrock-api-key-[A-Za-z0-9+/=]{20,}",
    "Clojars": r"CLOJARS_[A-Za-z0-9]{40,}",
    "Cloudflare": r"v1\.0-[a-f0-9]{24}-[a-f0-9]{60,}",
    "Databricks": r"dapi[0-9a-f]{32}",
    "DigitalOcean": r"do[opr]_v1_[0-9a-f]{40,}",
    "Docker Hub": r"dckr_[a-z]{2,4}_[\w-]{20,}",
    "Doppler": r"dp\.[a-z]{2,5}\.[A-Za-z0-9]{40,}",
    "Dynatrace": r"dt0[a-z]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{40,}",
    "GitHub": r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}",
    "GitLab": r"gl(?:pat|dt|rt|ptt|ft|imt|agent|oas|soat|cbt|ffct)-[\w.-]{20,}|GR1348941[\w-]{16,}",
    "Google": r"AIza[\w-]{30,}|ya29\.[\w.-]{20,}|GOOG[A-Z0-9]{20,}|GOCSPX-[\w-]{20,}",
    "Grafana": r"gl(?:c|sa)_[A-Za-z0-9+/_]{32,}",
    "Groq": r"gsk_[A-Za-z0-9]{20,}",
    "HashiCorp": r"hv[sbr]\.[\w-]{16,}|[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}",
    "Heroku": r"HRKU-[\w-]{40,}",
    "Hugging Face": r"hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{30,}",
    "JSON web token": r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?",
    "LangSmith": r"lsv2_[a-z]{2}_[0-9a-f]{20,}(?:_[0-9a-f]+)?",
    "Linear": r"lin_api_[A-Za-z0-9]{30,}",
    "Neptune": r"eyJhcGlf[A-Za-z0-9+/=]{16,}",
    "New Relic": r"NRAK-[A-Z0-9]{20,}",
    "Notion": r"ntn_[A-Za-z0-9]{40,}",
    "npm": r"npm_[A-Za-z0-9]{30,}",
    "OpenAI, Anthropic, Stripe and who names keys like them": r"[spr]k[-_](?=[\w-]{0,200}\d)[A-Za-z0-9_-]{16,}",
    "Perplexity, xAI": r"pplx-[A-Za-z0-9]{30,}|xai-[A-Za-z0-9]{30,}",
    "PlanetScale": r"pscale_[a-z]{2,5}_[\w=.-]{32,}",
    "Postman": r"PMAK-[a-f0-9]{24}-[a-f0-9]{30,}",
    "Prefect": r"pn[ub]_[A-Za-z0-9]{36}",
    "Pulumi": r"pul-[a-f0-9]{40}",
    "PyPI": r"pypi-[\w-]{40,}",
    "ReadMe": r"rdme_[a-z0-9]{60,}",
    "Replicate": r"r8_[A-Za-z0-9]{30,}",
    "RubyGems": r"rubygems_[a-f0-9]{40,}",
    "SendGrid, Sendinblue": r"SG\.[\w-]{16,}\.[\w-]{16,}|xkeysib-[a-f0-9]{60,}[\w-]*",
    "Sentry": r"sntry[su]_[A-Za-z0-9+/=_]{40,}",
    "Shopify": r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}",
    "Slack": r"xox[abeoprs]-[\w-]{10,}|xapp-\d-[\w-]{10,}|hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]+",
    "Sourcegraph": r"sgp_[A-Za-z0-9_]{40,}",
    "Stripe webhooks": r"whsec_[A-Za-z0-9+/=]{16,}",
    "Twilio": r"SK[0-9a-fA-F]{32}(?![A-Za-z0-9])",
    "those who number the versions of their keys": r"[a-z]{4,8}_v1_[\w-]{40,}",
    "Discord": r"discord(?:app)?\.com/api/webhooks/[\w/-]+",
    "Microsoft Teams": r"[a-z0-9]{1,60}\.webhook\.office\.com/[\w/@-]+",
}
"""After a character that is no letter or digit."""

_FORMS_ANYWHERE = {
    "Azure AD": r"(?<![\w~.-])[\w~.]{3}\dQ~[\w~.-]{31,34}",
    "Telegram": r"(?<!\d)\d{5,16}:A[\w-]{30,}",
    "a key of 40 digits, which is else a commit": r"(?<=login)(?P<before>[^\n]{0,40}?\s)[0-9a-f]{40}(?![0-9a-f])",
}

FORMS = Pattern(rf"(?<![A-Za-z0-9])(?:{'|'.join(_WORD_FORMS.values())})|{'|'.join(_FORMS_ANYWHERE.values())}")
"""A match is a secret, but for its group ``before``."""

PRIVATE_KEY_BEGINS, PRIVATE_KEY_ENDS = "-----BEGIN", "-----END"
PRIVATE_KEY = Pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)

USER_OF_URL = Pattern(
    r"(?<=://)(?:[^\s:/@\"'<>]{0,200}:(?!\d{1,5}(?:[/?#\s\"']|$))[^\s\"'<>]{1,500}@|[^\s/?#\"'<>]{1,500}@)"
)
"""The first form takes also a password that holds a slash or an @, which its author should have encoded."""
QUERY_OF_URL = Pattern(
    r"(?<=[?&])(?:(sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=[^&\s\"']+"
    r"|(key|code)=(?=[^&\s\"']{0,200}\d)[^&\s\"']{12,})",
    re.IGNORECASE,
)

BEHIND_A_WORD = (
    Pattern(r"\b(bearer\s+)(?=\S{0,500}\d)[\w.~+/=-]{12,}", re.IGNORECASE),
    Pattern(r"\b(authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:\w{1,40}\s{1,3})?)[^\s\"',;]+", re.IGNORECASE),
    Pattern(r"\b((?:set-)?cookie[\"']?\s{0,3}[:=]\s{0,3}[\"']?)(?=[\w.-]{1,100}=)[^\n\"']+", re.IGNORECASE),
    Pattern(r"\b(curl\s[^\n]{0,300}?(?:-u|--user)[= ]{0,3}[\"']?[^\s:\"']{1,100}:)[^\s\"']+"),
    Pattern(r"\b((?:mysql|mysqldump|mysqladmin|mariadb)\s(?:[^\n]{0,300}?\s)?-p)[^\s\"']+"),
    Pattern(r"\b(sshpass\s{1,3}-p\s{0,3}[\"']?)[^\s\"']+"),
    Pattern(r"\b(machine\s{1,3}\S{1,200}\s{1,9}(?:login\s{1,3}\S{1,200}\s{1,9})?password\s{1,3})\S+"),
    Pattern(r"\b(pass(?:word|phrase|code)\s{1,3}is\s{1,3}[\"']?)(?=[^\s\"']{0,100}\d)[^\s\"']{6,}", re.IGNORECASE),
)
"""The first group stays; what follows it is a secret."""
