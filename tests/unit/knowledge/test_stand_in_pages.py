import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb_knowledge.sources.page_signs import PageSigns, find_page_signs
from kb_knowledge.sources.stand_in_pages import find_stand_in
from tests.unit.linear.growth import complaint

LONG = "The seal of the pump is changed each spring. " * 30
SCRIPTS = PageSigns(has_scripts=True)
PASSWORD = PageSigns(asks_for_password=True)


def reason(title: str, text: str, signs: PageSigns = SCRIPTS, *, replaces: bool = True) -> str:
    found = find_stand_in(title, text, signs=signs, headers={}, replaces=replaces)
    return "" if found is None else found.reason


@pytest.mark.parametrize(
    ("title", "text", "signs"),
    [
        ("Pump", LONG, SCRIPTS),
        ("Log in to the pump", LONG, PASSWORD),
        ("Opening hours", "Daily from 9 to 17.", SCRIPTS),
        ("Opening hours", "Daily from 9 to 17. Write to us, call us, or come by, and we will help. " * 3, PASSWORD),
        ("JavaScript course", "In three days you learn JavaScript, and how it requires care.", SCRIPTS),
        ("Maintenance", "Scheduled maintenance of the pump: each 500 hours. Change the seal.", SCRIPTS),
        ("Robots", "Is it a robot or a human arm? We build both.", SCRIPTS),
        ("Lost and found", "The document found in hall 4 is at the desk.", SCRIPTS),
        ("Model 404", "The pump has 404 blades.", SCRIPTS),
        ("Loading dock", "Loading: from 6 to 8.", SCRIPTS),
        ("Faults", "Fatal error 7 on the display: the pump is too hot. An error of the server is shown as 8.", SCRIPTS),
        ("Hours", "Daily from 9 to 17. We use cookies. Accept all cookies. Are you over the bridge? Ring.", SCRIPTS),
        ("Forbidden things", "Forbidden is the use of the pump without oil.", SCRIPTS),
        ("Cookies", "Which cookies we set: one for the language.", SCRIPTS),
        ("网页", "页面不存在时怎么办。" + "请检查地址然后联系我们的水泵服务。" * 20, SCRIPTS),
        ("Log", "Log of the year: the pump ran for 300 days.", SCRIPTS),
    ],
)  # fmt: skip
def test_a_page_that_speaks_of_such_things_is_a_page(title: str, text: str, signs: PageSigns) -> None:
    assert reason(title, text, signs) == ""


@pytest.mark.parametrize(
    ("title", "text", "signs", "says"),
    [
        ("App", "You need to enable JavaScript to run this app.", SCRIPTS, "scripts"),
        ("App", "Bitte aktivieren Sie JavaScript. JavaScript ist erforderlich.", SCRIPTS, "scripts"),
        ("App", "Loading...", SCRIPTS, "scripts"),
        ("App", "# App\n\nLoading data...", SCRIPTS, "scripts"),
        ("App", "", SCRIPTS, "scripts"),
        ("App", "", PageSigns(), "no text"),
        ("Just a moment...", "Enable cookies to continue", SCRIPTS, "captcha"),
        ("Attention", "Please verify you are human by completing the action below.", SCRIPTS, "captcha"),
        ("Anmelden", "# Anmelden\n\nBenutzer Kennwort", PASSWORD, "login"),
        ("Portal", "User Password Forgot?", PASSWORD, "login"),
    ],
)
def test_a_page_without_a_text_of_its_own_is_told_also_if_it_is_new(
    title: str, text: str, signs: PageSigns, says: str
) -> None:
    assert says in reason(title, text, signs, replaces=False)


@pytest.mark.parametrize(
    ("title", "text", "says"),
    [
        ("Portal", "# Sign in\n\nChoose your company.", "login"),
        ("Pumps", "Our site is currently undergoing scheduled maintenance.", "maintenance"),
        ("Pumps", "Wegen Wartungsarbeiten geschlossen.", "maintenance"),
        ("Pumps", "We'll be back soon!", "maintenance"),
        ("Pumps", "We will be right back after an update.", "maintenance"),
        ("Pumps", "Accept our cookies to visit pumps.test.", "consent"),
        ("Before you continue", "Choose what we may store.", "consent"),
        ("Wine", "Are you over 18?", "consent"),
        ("Pumps", "This site is not available in your region.", "consent"),
        ("", "**Warning**: no file in **/srv/a.php** on line **3**", "error"),
        ("Pumps", "Error establishing a database connection", "error"),
        ("Pumps", "Application error: a server-side exception has occurred.", "error"),
        ("Pumps", "Sorry, the page you requested was not found.", "not there"),
        ("404", "Nothing here.", "not there"),
        ("Pumps", "Die Seite existiert nicht.", "not there"),
        ("Bombas", "La página que busca no existe.", "not there"),
        ("Pompes", "La page demandée n\u2019existe pas.", "not there"),
        ("Pumps", "Strona o tym adresie nie istnieje.", "not there"),
        ("Насосы", "Страница не найдена", "not there"),
        ("水泵", "抱歉您访问的页面不存在。", "not there"),
        ("ポンプ", "お探しのページは見つかりませんでした。", "not there"),
        ("Pumps", "429 Too Many Requests", "away"),
        ("403 Forbidden", "# 403 Forbidden\n\nnginx", "away"),
        ("Pumps", "This account has been suspended.", "away"),
        ("Welcome to nginx!", "If you see this page, the web server is installed.", "away"),
        ("Pumps", "Please enable cookies in your browser.", "consent"),
        ("Application error", "# Application error", "error"),
        ("", '{"error": "Unauthorized"}', "error"),
    ],
)
def test_a_notice_counts_where_it_would_replace_a_text(title: str, text: str, says: str) -> None:
    assert says in reason(title, text)
    if says != "not there":
        assert reason(title, text, replaces=False) == ""


@given(st.binary(max_size=400))
def test_no_page_makes_the_search_for_signs_raise(body: bytes) -> None:
    find_page_signs(body, {"refresh": body.decode("latin-1")})


@pytest.mark.parametrize(
    "seed", [b"<meta ", b"<!--", b"<script>", b"<input type=", b"<meta http-equiv=refresh content='0;"]
)
def test_signs_of_a_hostile_page_take_linear_time(seed: bytes) -> None:
    def find(text: str) -> object:
        return find_page_signs(text.encode(), {})

    assert not complaint(find, lambda length: seed.decode() * (length // len(seed)), longest=200_000)
