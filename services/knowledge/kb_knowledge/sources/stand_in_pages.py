"""Tells a page that stands in for another, such as a login that answers with 200, from the page. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kb_knowledge.sources.page_signs import PageSigns

_MOST_WORDS: Final = 120
"""A page that begins with a login and has more words than this says something of its own."""
_MOST_WORDS_OF_A_NOTICE: Final = 60
_MOST_WORDS_AROUND_A_PASSWORD: Final = 25
_OF_WORDS_WITHOUT_SPACES: Final = re.compile("[\\u0e00-\\u0e7f\\u3040-\\u30ff\\u3400-\\u9fff]")
_LOOKED_AT_CHARACTERS: Final = 2_000
_NEEDS_SCRIPTS: Final = re.compile(
    r"java ?script\W{1,3}(is |must be |needs? to be |has to be |muss |ist |doit être |est |debe estar |está |è )?"
    r"(not )?(enabled?|disabled|required|necessary|aktivier|deaktivier|erforderlich|benötigt|activé|désactivé"
    r"|nécessaire|habilitado|desactivado|necesario|abilitato|disabilitato|necessario|ingeschakeld|vereist)"
    r"|(enable|requires?|without|turn on|switch on|needs?|aktivieren sie|benötigt|ohne|activer|activez|habilit\w{1,4}"
    r"|abilit\w{1,4}|attiva\w{0,3}|necesita|schakel) (your |the |bitte )?java ?script",
    re.IGNORECASE,
)
_LOADS: Final = re.compile(
    r"\W{0,20}(loading( \w{1,20}){0,2}|please wait|wird geladen|bitte warten|chargement|cargando|caricamento)\W{0,20}",
    re.IGNORECASE,
)
_CHALLENGE: Final = re.compile(
    r"(verify|verifying|confirm|prove) (that )?you('re| are) (a )?(human|not a robot)|are you (a human|a robot|human)"
    r"|i'm not a robot|checking (if the site connection is secure|your browser)|^just a moment"
    r"|(complete|solve) (the|this|a) captcha|unusual (traffic|activity) from|kein roboter|security check to access"
    r"|ddos protection by|incapsula incident",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(
    r"\W{0,20}(please |bitte )?(sign[ -]?in|log[ -]?in|login|log on|anmelden|anmeldung|einloggen|(se )?connecter"
    r"|connexion|iniciar sesión|accedi|inloggen|aanmelden|(your )?session (has )?expired|access denied"
    r"|authentication required)\b",
    re.IGNORECASE,
)
_AWAY: Final = re.compile(
    r"(down|offline|closed|unavailable) (for|due to)( \w{1,20}){0,2} maintenance|maintenance mode"
    r"|^\W{0,20}under maintenance"
    r"|(currently|site is|we are|we're|is now) (under|in|undergoing|performing)( \w{1,20}){0,2} maintenance"
    r"|(be|come) (right )?back (online |up )?(soon|shortly|later|after |in a )"
    r"|(temporarily|currently) (unavailable|offline)"
    r"|service unavailable|wartungsarbeiten|wartungsmodus|wegen wartung"
    r"|(derzeit|vorübergehend) nicht (erreichbar|verfügbar)|en maintenance|en mantenimiento|in manutenzione"
    r"|in onderhoud|bad gateway|internal server error|gateway time-?out"
    r"|^\W{0,20}([45]\d\d\b\W{0,3})?(forbidden|unauthorized|bad request|too many requests|rate limit exceeded)\W{0,20}$"
    r"|(account|site|domain|deployment) (has been|is|was)( \w{1,20}){0,2} (suspended|disabled|paused|parked)"
    r"|welcome to nginx|(apache2?|centos|debian|ubuntu|iis)\b.{0,40}\b(default|test|welcome) page",
    re.IGNORECASE | re.MULTILINE,
)
_CONSENT: Final = re.compile(
    # A banner for cookies also stands on pages with a text: only a wall says what comes after it.
    r"^\W{0,20}before you continue\b|cookies (in order )?to (continue|proceed|access|visit|enter|view)"
    r"|cookies\b.{0,40}, um (fortzufahren|fortzusetzen)|cookies pour (continuer|accéder)|cookies para continuar"
    r"|you('re| are)? (over|at least) (the age of )?\d\d|you('re| are)? of legal (drinking )?age"
    r"|not available in your (country|region|location)|(enable|allow|accept) (your )?cookies in your browser"
    r"|cookies (are|must be|need to be) (disabled|enabled|required)|aktivieren sie (bitte )?cookies",
    re.IGNORECASE | re.MULTILINE,
)
_FAILURE: Final = re.compile(
    r"\buncaught \w{0,40}(exception|error)|\.php\W{1,6}on line \W{0,4}\d|SQLSTATE\[|traceback \(most recent call last\)"
    r"|error (establishing|connecting to) (a|the) database|a (client|server)-side exception has occurred"
    r"|^\W{0,20}application error\W{0,20}$|an error occurred in the application"
    r"|(unexpected|unhandled) (error|exception)( has)? occurred|too many connections|^\W{0,20}something went wrong",
    re.IGNORECASE | re.MULTILINE,
)
_NOT_FOUND: Final = re.compile(
    r"^\W{0,20}(error |fehler )?404\W{0,20}$|\b404\W{1,3}(not found|error|page|file)|(error|fehler) 404"
    r"|(page|seite|document|file)( you \w{1,12}( for)?)? (was |wurde |is |could |konnte )?(not|nicht|cannot|can't) "
    r"(be )?(found|gefunden)\b|page introuvable|página no encontrada|pagina non trovata"
    r"|pagina niet gevonden|page (is )?no longer (available|exists)|page (does not|doesn['\u2019]t) exist"
    r"|(seite|dokument)( \w{1,20}){0,3} (existiert nicht|nicht (vorhanden|verfügbar))|seite existiert nicht"
    r"|página( \w{1,20}){0,4} (no (existe|se (ha )?encontr)|não (existe|foi encontrada))|página não encontrada"
    r"|page( \S{1,20}){0,4} n['\u2019](existe|a pas été trouvée)|pagina( \w{1,20}){0,4} (non esiste|bestaat niet)"
    r"|(nie znaleziono|nie odnaleziono) strony|strona( \w{1,20}){0,3} nie istnieje|sidan (kunde inte hittas|finns inte)"
    r"|siden (findes|finnes|blev) ikke|stránka( \w{1,20}){0,2} (nenalezena|neexistuje)|sayfa bulunamad\u0131"
    r"|страница( \w{1,20}){0,3} не (найдена|существует)|[页頁]面(不存在|未找到|找不到)|找不到.{0,8}[页頁]面"
    r"|ページ[がは](見つかりません|存在しません)|お探しのページは|페이지를 찾을 수 없",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class StandIn:
    reason: str
    is_usual: bool = False
    """True of pages that sites have among others, such as one for the login or one with pictures only."""


_ASKS_FOR_LOGIN: Final = StandIn("it asks for a login, which the crawler does not have", is_usual=True)
_IS_CHALLENGE: Final = StandIn("the server asks whether a person reads it (captcha), and the crawler can't answer")
_IS_BLANK: Final = StandIn("it has no text without scripts (JavaScript), which the crawler does not run")
_LACKS_SCRIPTS: Final = StandIn("its text needs scripts (JavaScript), which the crawler does not run")
_IS_AWAY: Final = StandIn("it says that the site is away or under maintenance, with the status 200")
_ASKS_FOR_CONSENT: Final = StandIn("it asks a visitor for consent first, which the crawler does not give")
_HAS_FAILED: Final = StandIn("it shows an error of the server's program, with the status 200")
_IS_NOT_THERE: Final = StandIn("it says that the page is not there, with the status 200 instead of 404", is_usual=True)
_HAS_NO_TEXT: Final = StandIn("it has no text", is_usual=True)


def find_stand_in(
    title: str, text: str, *, signs: PageSigns, headers: Mapping[str, str], replaces: bool
) -> StandIn | None:
    """Return what a page is instead of a page with a text; None if it is one.

    Args:
        title: of the page.
        text: that was found in it.
        signs: that were found in it.
        headers: of the answer; names are in lower case.
        replaces: whether another text of the page is stored. Then a notice counts as what it says that it is.
    """
    words = _count_words(text)
    if "challenge" in headers.get("cf-mitigated", "").lower():
        return _IS_CHALLENGE
    if not words:
        return _IS_BLANK if signs.has_scripts else _HAS_NO_TEXT
    first_line = text.lstrip("# \n").partition("\n")[0]
    is_login = _LOGIN.match(title) is not None or _LOGIN.match(first_line) is not None
    if signs.asks_for_password and words <= (_MOST_WORDS if is_login else _MOST_WORDS_AROUND_A_PASSWORD):
        return _ASKS_FOR_LOGIN
    if words > _MOST_WORDS_OF_A_NOTICE:
        return None
    beginning = f"{title}\n{text}"[:_LOOKED_AT_CHARACTERS]
    rules = (
        (_IS_CHALLENGE, signs.has_scripts and _CHALLENGE.search(beginning)),
        (_LACKS_SCRIPTS, signs.has_scripts and _NEEDS_SCRIPTS.search(text)),
        (_LACKS_SCRIPTS, (signs.has_scripts or replaces) and _LOADS.fullmatch(_below_title(title, text))),
        (_HAS_FAILED, replaces and text.startswith("{") and text.endswith("}")),
        (_ASKS_FOR_LOGIN, replaces and is_login),
        (_IS_AWAY, replaces and _AWAY.search(beginning)),
        (_ASKS_FOR_CONSENT, replaces and _CONSENT.search(beginning)),
        (_HAS_FAILED, replaces and _FAILURE.search(beginning)),
        (_IS_NOT_THERE, _NOT_FOUND.search(beginning if replaces else f"{title}\n{first_line}")),
    )
    return next((stand_in for stand_in, applies in rules if applies), None)


def _count_words(text: str) -> int:
    """Return the number of words, which some scripts write without spaces, in two characters or so."""
    return max(len(text.split()), len(_OF_WORDS_WITHOUT_SPACES.findall(text)) // 2)


def _below_title(title: str, text: str) -> str:
    """Return a text without its first line, if that repeats the title."""
    first_line, _, rest = text.partition("\n")
    return rest if first_line.lstrip("# ") == title else text
