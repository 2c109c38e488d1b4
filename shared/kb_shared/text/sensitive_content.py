"""Finds credentials in texts, so that they are refused before anything stores them. Pure.

Keys of services are found by detectors of bc-detect-secrets, the fork of detect-secrets that Prisma Cloud maintains:
detect-secrets itself has had no release since May 2024. Its detectors of keywords and of entropy are not used: prose
contains passwords to reset and tokens to count, and hashes, UUIDs and images have as much entropy as keys. Passwords
and the formats that it lacks are below.

Detectors are called by themselves, not through the library's scanner, which reads settings of the whole process and
can ask providers about keys. Some of their expressions need quadratic time, so they see windows of a line. The
expressions below need linear time.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.basic_auth import BasicAuthDetector
from detect_secrets.plugins.cloudant import CloudantDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.ibm_cos_hmac import IbmCosHmacDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.softlayer import SoftlayerDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from kb_shared.text.placeholders import is_name, is_placeholder, is_wordlike

_SHORTEST_KEY_CHARACTERS: Final = 8
_SHORTEST_VALUE_CHARACTERS: Final = 4
_WINDOW_CHARACTERS: Final = 1_000
_OVERLAP_CHARACTERS: Final = 250
"""Length of the longest key that a detector of the library finds."""
_PART_CHARACTERS: Final = 100_000
"""Length of the part of a text that one expression reads at once: no other thread runs meanwhile."""
_SHARED_CHARACTERS: Final = 25_000
"""Characters that are in two parts: more than the longest credential that an expression finds."""
_LONGEST_LINE_TO_KEEP_WHOLE: Final = 10_000


class SensitivePattern(StrEnum):
    """Kind of credential: the label of `kb_content_refused_total`, and what a refusal names."""

    API_KEY = "api-key"
    AWS_KEY = "aws-key"
    AZURE_KEY = "azure-key"
    BASIC_AUTH = "basic-auth"
    BEARER_TOKEN = "bearer-token"  # noqa: S105  # a name, no secret
    CLOUDANT_KEY = "cloudant-key"
    DISCORD_TOKEN = "discord-token"  # noqa: S105  # a name, no secret
    GITHUB_TOKEN = "github-token"  # noqa: S105  # a name, no secret
    IBM_KEY = "ibm-key"
    JWT = "jwt"
    KB_API_KEY = "kb-api-key"
    MAILCHIMP_KEY = "mailchimp-key"
    NPM_TOKEN = "npm-token"  # noqa: S105  # a name, no secret
    PASSWORD = "password"  # noqa: S105  # a name, no secret
    PRIVATE_KEY = "private-key"
    PROVIDER_KEY = "provider-key"
    SENDGRID_KEY = "sendgrid-key"
    SLACK_TOKEN = "slack-token"  # noqa: S105  # a name, no secret
    SOFTLAYER_KEY = "softlayer-key"
    SQUARE_TOKEN = "square-token"  # noqa: S105  # a name, no secret
    STRIPE_KEY = "stripe-key"
    TWILIO_KEY = "twilio-key"
    URL_PASSWORD = "url-password"  # noqa: S105  # a name, no secret


@dataclass(frozen=True, slots=True)
class SensitiveContent:
    """Place of a credential in a text. It never contains the credential."""

    pattern: SensitivePattern
    line: int
    """Number of the line, from 1."""


def find_sensitive(text: str) -> SensitiveContent | None:
    """Return the first credential in `text`; of two in a line, the more specific one."""
    for start in _starts_of_parts(text):
        if (found := _find_in_part(text[start : start + _PART_CHARACTERS])) is not None:
            return replace(found, line=found.line + text.count("\n", 0, start))
    return None


def _starts_of_parts(text: str) -> Iterator[int]:
    """Yield the positions of parts, at beginnings of lines or words: half a word may look like a key."""
    start = 0
    yield start
    while start + _PART_CHARACTERS < len(text):
        latest = start + _PART_CHARACTERS - _SHARED_CHARACTERS
        before = [text.rfind(end, latest - _LONGEST_LINE_TO_KEEP_WHOLE, latest) + 1 for end in ("\n", " ")]
        start = next(filter(None, before), latest)
        yield start


def _find_in_part(text: str) -> SensitiveContent | None:
    places = [*_places_of_detectors(text), *_places_of_expressions(text)]
    return min(places, key=lambda place: place.line, default=None)


_DETECTORS: Final[tuple[tuple[SensitivePattern, RegexBasedDetector], ...]] = (
    (SensitivePattern.AWS_KEY, AWSKeyDetector()),
    (SensitivePattern.URL_PASSWORD, BasicAuthDetector()),
    (SensitivePattern.CLOUDANT_KEY, CloudantDetector()),
    (SensitivePattern.DISCORD_TOKEN, DiscordBotTokenDetector()),
    (SensitivePattern.GITHUB_TOKEN, GitHubTokenDetector()),
    (SensitivePattern.IBM_KEY, IbmCosHmacDetector()),
    (SensitivePattern.MAILCHIMP_KEY, MailchimpDetector()),
    (SensitivePattern.NPM_TOKEN, NpmDetector()),
    (SensitivePattern.SENDGRID_KEY, SendGridDetector()),
    (SensitivePattern.SLACK_TOKEN, SlackDetector()),
    (SensitivePattern.SOFTLAYER_KEY, SoftlayerDetector()),
    (SensitivePattern.SQUARE_TOKEN, SquareOAuthDetector()),
    (SensitivePattern.STRIPE_KEY, StripeDetector()),
    (SensitivePattern.TWILIO_KEY, TwilioKeyDetector()),
)


def _places_of_detectors(text: str) -> Iterator[SensitiveContent]:
    """Yield the first place that a detector of the library finds."""
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) < _SHORTEST_KEY_CHARACTERS:
            continue
        for window in _windows(line):
            for pattern, detector in _DETECTORS:
                if any(_is_key(match) for expression in detector.denylist for match in expression.finditer(window)):
                    yield SensitiveContent(pattern, number)
                    return


def _is_key(match: re.Match[str]) -> bool:
    if _USER_TWICE.search(match[0]):
        return False
    # The group is the key where words around it are part of the expression, but in some only the beginning of a key.
    groups = [group for group in match.groups() if group and len(group) >= _SHORTEST_VALUE_CHARACTERS]
    return not is_placeholder(groups[-1] if groups else match[0])


_USER_TWICE: Final = re.compile(r"://(?P<user>[a-z]{1,64}):(?P=user)@")
"""Login of an example, such as `guest:guest`, in an address."""


def _windows(line: str) -> Iterator[str]:
    step = _WINDOW_CHARACTERS - _OVERLAP_CHARACTERS
    for start in range(0, max(1, len(line) - _OVERLAP_CHARACTERS), step):
        yield line[start : start + _WINDOW_CHARACTERS]


_SEPARATOR: Final = (
    r"""["'`*_\]]{0,4}[ \t]{0,4}"""
    r"""(?::=|=>|->|={1,2}|[:\uff1a|]|[ \t](?:is|are|was|ist|lautet|est|es|è|é|jest|är):?)["'`*_ \t]{0,6}"""
)
_KEYWORDS: Final = (
    r"(?i:password|passwd|passwort|kennwort|passphrase|passcode|contraseña|mot de passe|senha|wachtwoord|hasło|heslo"
    r"|lösenord(?:et)?|adgangskoden?|passordet|salasana|пароль|密码|パスワード)"
)
_VALUE: Final = r"(?P<value>[^\s\"'`<>(){}\[\],;&|]{6,128})"

_EXPRESSIONS: Final[tuple[tuple[SensitivePattern, re.Pattern[str]], ...]] = (
    (
        SensitivePattern.PRIVATE_KEY,
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
            # Whitespace, as it is or escaped, and the headers of PGP and of encrypted keys.
            r"(?:[\s\"'>|+]|\\[nr]|[A-Za-z-]{1,30}: [^\n]{0,100}\n){0,60}(?P<value>[A-Za-z0-9+/]{24})"
        ),
    ),
    (
        SensitivePattern.PRIVATE_KEY,
        re.compile(r"Private-Lines: \d{1,3}\s{1,4}(?P<value>[A-Za-z0-9+/]{24})"),
    ),
    (SensitivePattern.PRIVATE_KEY, re.compile(r"AGE-SECRET-KEY-1(?P<value>[A-Z0-9]{58})")),
    (
        SensitivePattern.JWT,
        re.compile(r"(?<![\w-])eyJ[\w-]{8,4000}\.(?P<value>eyJ[\w-]{8,16000}\.[\w-]{16,4000})", re.ASCII),
    ),
    (SensitivePattern.KB_API_KEY, re.compile(r"(?<![A-Za-z0-9])kb_[0-9a-f]{12,16}_(?P<value>[\w-]{20,100})", re.ASCII)),
    (
        SensitivePattern.GITHUB_TOKEN,
        re.compile(r"(?<![A-Za-z0-9])github_pat_(?P<value>\w{40,100})", re.ASCII),
    ),
    (
        SensitivePattern.PROVIDER_KEY,
        re.compile(
            r"(?<![\w-])(?:sk-|sk_|gsk_|hf_|r8_|pplx-|xai-|nvapi-|AIza|ya29\.|glpat-|gldt-|dop_v1_|shpat_|lin_api_"
            r"|pypi-|whsec_|tskey-|dckr_pat_|hvs\.|lsv2_|pcsk_|tvly-|jina_|csk-|tgp_v1_|PMAK-|shpss_|shpca_|shppa_|ATATT3x"
            r"|ATCTT3x|ntn_|glsa_|glc_|glrt-|NRAK-|dp\.(?:pt|st|ct|sa)\.|sbp_|figd_|sntrys_|pscale_tkn_|EAAA|xkeysib-"
            r"|GOCSPX-|rubygems_|nfp_)(?P<value>[\w-]{20,300})",
            re.ASCII,
        ),
    ),
    (
        SensitivePattern.PROVIDER_KEY,
        # Airtable, Databricks, Mailgun, Notion, Telegram: beginnings that other texts have, too, so all of the form.
        re.compile(
            r"(?<![\w-])(?P<value>pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|dapi[0-9a-f]{32}|key-[0-9a-f]{32}|secret_[A-Za-z0-9]{43}"
            r"|\d{8,10}:AA[\w-]{33})(?![\w-])",
            re.ASCII,
        ),
    ),
    (
        SensitivePattern.AZURE_KEY,
        re.compile(r"(?i:account_?key|shared_?access_?key)\s{0,4}[=:]\s{0,4}(?P<value>[A-Za-z0-9+/]{40,88})"),
    ),
    (SensitivePattern.AZURE_KEY, re.compile(r"[?&]sig=(?P<value>[A-Za-z0-9%+/]{40,100})")),
    (
        SensitivePattern.BEARER_TOKEN,
        re.compile(r"(?<![A-Za-z])(?i:bearer)[ \t]{1,4}[\"'`]?(?P<value>[\w.~+/-]{16,500})", re.ASCII),
    ),
    (
        SensitivePattern.BASIC_AUTH,
        re.compile(r"(?<![A-Za-z])(?i:basic)[ \t]{1,4}(?P<base64>[A-Za-z0-9+/]{8,500}={0,2})(?![\w-])"),
    ),
    (
        SensitivePattern.API_KEY,
        re.compile(
            r"(?:(?i:api|access|secret|auth|client|private|signing|encryption|webhook|master|session|refresh|bot|deploy"
            r"|service|account)[ _-]?(?i:key|token|secret)|(?<![A-Za-z_-])(?i:token|secret))"
            rf"{_SEPARATOR}(?P<value>[\w.+/~-]{{16,500}})",
            re.ASCII,
        ),
    ),
    (
        SensitivePattern.PASSWORD,
        re.compile(rf"(?:{_KEYWORDS}|(?<![A-Za-z])(?i:pwd)){_SEPARATOR}{_VALUE}"),
    ),
    (
        SensitivePattern.PASSWORD,
        # "The password of the router is", "login jana password": a sentence, which may also say something else of it.
        re.compile(rf"{_KEYWORDS}(?P<whose>(?:[ \t]{{1,4}}[^\s:=|]{{1,30}}){{1,8}}?{_SEPARATOR}|[ \t]{{1,4}}){_VALUE}"),
    ),
    (
        # The detector of the library stops at signs that passwords have.
        SensitivePattern.URL_PASSWORD,
        re.compile(r"://[^\s:/@\"'<>]{0,64}:(?P<value>[^\s/@\"'<>]{6,128})@[\w\[]"),
    ),
    (
        SensitivePattern.PASSWORD,
        re.compile(
            r"(?<!\w)curl\b[^\n]{0,200}?[ \t](?:-u|--user|-U|--proxy-user)[ \t=]{0,3}"
            r"[\"']?[^\s:\"'/]{1,64}:(?P<value>[^\s\"'`<>(){}\[\],;&|]{6,128})"
        ),
    ),
    (
        SensitivePattern.PASSWORD,
        # Also a ticket, a way over mountains, a filter, or the result of a test.
        re.compile(rf"(?<![A-Za-z])(?P<ticket>(?i:pass|pw)){_SEPARATOR}{_VALUE}"),
    ),
)


def _places_of_expressions(text: str) -> Iterator[SensitiveContent]:
    """Yield the first place of each expression."""
    for pattern, expression in _EXPRESSIONS:
        for match in expression.finditer(text):
            if _is_credential(pattern, match):
                yield SensitiveContent(pattern, text.count("\n", 0, match.start()) + 1)
                break


def _is_credential(pattern: SensitivePattern, match: re.Match[str]) -> bool:
    match pattern:
        case SensitivePattern.BASIC_AUTH:
            return _has_password(match["base64"])
        case SensitivePattern.PASSWORD if "ticket" in match.re.groupindex:
            return _is_password(match["value"]) and not _is_ticket(match)
        case SensitivePattern.PASSWORD:
            is_sure = "whose" not in match.re.groupindex or _is_no_term(match["value"])
            return is_sure and _is_password(match["value"])
        case SensitivePattern.PRIVATE_KEY | SensitivePattern.JWT:
            return not is_placeholder(match["value"])
        case SensitivePattern.API_KEY | SensitivePattern.BEARER_TOKEN if is_name(match["value"]):
            return False
        case _:
            return not is_placeholder(match["value"]) and not is_wordlike(match["value"])


def _has_password(encoded: str) -> bool:
    """Say whether a value of an `Authorization: Basic` header has a password that isn't a placeholder."""
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return bool(user and colon and password) and not is_placeholder(password)


_ADDRESS: Final = re.compile(r"[a-z]{1,20}://|[\w.+-]{1,64}@[\w-]{1,64}\.\w", re.IGNORECASE)
_SIGN_IN_A_WORD: Final = re.compile(r"\w[!$%^*@]\w")

_WORD_AND_YEAR: Final = re.compile(r"[A-Za-z]{4,20}[-_.](?:19|20)\d\d")


_CONTEXT_CHARACTERS: Final = 80
_OF_A_LOGIN: Final = re.compile(
    r"(?i:user|login|log[ -]in|account|benutzer|anmeld|admin|credential|zugang"
    r"|\b(?:root|sudo|ssh|s?ftp|smtp|imap|sql|mail|wi-?fi|wlan|vpn|router|server|host|db|database|default|initial|temp"
    r"|temporary|wiki|portal|laptop|git|jenkins|jira|app|api|prod|staging|ldap)\b)"
    r"|[\w.+-]{1,64}@|_\Z"
)
_WORD_BEFORE: Final = re.compile(r"[^\W\d_]{2,30}[ \t]{1,3}\Z")
_MEASURES_AND_CODES: Final = re.compile(
    # A number, also with a sign of money and a unit; a word, also with a number; a code of capitals and digits.
    r"[€$£¥~≥≤<>]?\d{1,9}[A-Za-zµ°%€$£¥²³]{0,10}|[A-Za-z]?[a-z]{0,15}\d{0,4}|[A-Z]{1,6}\d{0,8}[A-Z]{0,3}|\d{1,6}[A-Z]{1,4}\d{0,6}"
)
_BETWEEN_MEASURES: Final = re.compile(r"[-\u2013/+.,:@x\u00d7=_~]")
_FEWEST_KINDS: Final = 3
_SHORTEST_WITHOUT_SIGN_CHARACTERS: Final = 10
_SIGN_BESIDE_LETTERS: Final = re.compile(r"[^\W_][!$^*#&?%@]+[^\W_]")
_SHORT_WORDS: Final = re.compile(r"\d{0,6}(?:[A-Za-z]{1,4}\d{1,6}){2,30}[A-Za-z]{0,4}")
_WORD_AND_NUMBER: Final = re.compile(r"[A-Za-z]{4,20}\d{2,6}")


def _is_ticket(match: re.Match[str]) -> bool:
    """Say whether `pass` or `pw` before a value is no password: a ticket, a filter, a calendar week, or a result."""
    value = match["value"].rstrip(".:!?*_")
    start, end = max(0, match.start() - _CONTEXT_CHARACTERS), match.start()
    before = match.string[start:end].rpartition("\n")[2]
    if _OF_A_LOGIN.search(before):
        return False
    parts = _BETWEEN_MEASURES.split(value)
    if len(parts) > 1 and all(map(_MEASURES_AND_CODES.fullmatch, parts)):
        return True
    is_one_word = _WORD_AND_NUMBER.fullmatch(value) is not None
    has_word_before = _WORD_BEFORE.search(before) is not None
    if is_one_word:
        return has_word_before or len(value) < _SHORTEST_KEY_CHARACTERS
    if has_word_before and len(value) < _SHORTEST_KEY_CHARACTERS:
        return True
    return _MEASURES_AND_CODES.fullmatch(value) is not None or _count_kinds(value) < _FEWEST_KINDS


def _count_kinds(value: str) -> int:
    """Return the number of kinds of characters: small and capital letters, digits, and signs that no measure has."""
    kinds = (str.islower, str.isupper, str.isdigit, "!$^*#&?%@".__contains__)
    return sum(any(map(kind, value)) for kind in kinds)


def _is_no_term(value: str) -> bool:
    """Say whether a value has a sign in it that terms and codes don't have, or is as mixed as only a random one is."""
    value = value.rstrip(".:!?*_")
    if len(value) < _SHORTEST_KEY_CHARACTERS or not any(map(str.isdigit, value)):
        return False
    return _count_kinds(value) >= _FEWEST_KINDS and (
        _SIGN_BESIDE_LETTERS.search(value) is not None
        or (len(value) >= _SHORTEST_WITHOUT_SIGN_CHARACTERS and _SHORT_WORDS.fullmatch(value) is not None)
    )


def _is_password(value: str) -> bool:
    """Say whether a value after the word password is one: words are not, because prose has them there."""
    value = value.rstrip(".:!?*_")
    return (
        len(value) >= 6
        and (any(character.isdigit() for character in value) or _SIGN_IN_A_WORD.search(value) is not None)
        and not _ADDRESS.match(value)
        and not is_placeholder(value)
        and (_WORD_AND_YEAR.fullmatch(value) is not None or not is_wordlike(value))
    )
