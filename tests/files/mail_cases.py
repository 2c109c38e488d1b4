"""Mails in the forms of Outlook, Apple Mail, Thunderbird, Gmail, mutt and programs that send them."""

import base64
import quopri
from typing import Final

from tests.files.case import Case, Expected
from tests.files.text_cases import GUESSED, RUSSIAN

_HEAD: Final = (
    "From: Ruth Falk <ruth@falk.example>\nTo: Store <store@falk.example>\nDate: Tue, 4 Mar 2025 09:30:00 +0100\n"
    "MIME-Version: 1.0\n"
)


def _mail(
    name: str,
    rest: str | bytes,
    *shows: Expected,
    hides: tuple[str, ...] = (),
    warns: str | None = None,
    title: str | None = None,
    head: str = _HEAD,
) -> Case:
    data = head.encode() + (rest.encode() if isinstance(rest, str) else rest)
    return Case(name, ".eml", data, shows, hides, warns, title)


def _part(text: str, kind: str = "text/plain; charset=utf-8", more: str = "") -> str:
    return f"Content-Type: {kind}\n{more}\n{text}\n"


def _several(kind: str, *parts: str, boundary: str = "=_x") -> str:
    inner = "".join(f"--{boundary}\n{part}\n" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\n{inner}--{boundary}--\n'


def _encoded(text: str, charset: str) -> str:
    return base64.b64encode(text.encode(charset)).decode()


_ATTACHED: Final = 'Content-Disposition: attachment; filename="{}"\nContent-Transfer-Encoding: base64\n'
_EVENT: Final = (
    "BEGIN:VCALENDAR\nVERSION:2.0\nMETHOD:REQUEST\nBEGIN:VEVENT\nUID:1\nSUMMARY:Fire drill\nLOCATION:Yard 3\n"
    "DTSTART:20250611T080000Z\nDTEND:20250611T090000Z\nEND:VEVENT\nEND:VCALENDAR\n"
)

HEADERS: Final = [
    _mail(
        "headers that a reader wants show",
        "Subject: Keys\n\nThey hang at the door.",
        "Ruth Falk",
        "Store",
        "Subject: Keys",
        "They hang at the door.",
        title="Keys",
    ),
    _mail(
        "headers of programs do not show",
        "Subject: Keys\nX-Mailer: Pigeon 4\nReceived: from mx.falk.example\n\nBody.",
        "Body.",
        hides=("Pigeon", "mx.falk"),
    ),
    _mail(
        "encoded headers are read",
        "Subject: =?utf-8?B?UsO8Y2tnYWJl?= =?utf-8?Q?_am_Fr=C3=BChst?=\n\nBody.",
        "Rückgabe am Frühst",
        title="Rückgabe am Frühst",
    ),
    _mail(
        "headers of Latin-1 are read", "Subject: =?iso-8859-1?Q?Schl=FCssel?=\n\nBody.", "Schlüssel", title="Schlüssel"
    ),
    _mail(
        "a letter split between words is read",
        "Subject: =?utf-8?B?w4Rw?= =?utf-8?B?ZmVs?=\n\nBody.",
        "Äpfel",
        title="Äpfel",
    ),
    _mail("raw UTF-8 in headers is read", "Subject: Schließfächer\n\nBody.", "Schließfächer", title="Schließfächer"),
    _mail(
        "long headers go on in the next line",
        "Subject: The big\n crane is back\n\nBody.",
        "The big crane is back",
        title="The big crane is back",
    ),
    _mail(
        "a subject of a program is no title",
        "Subject: (no subject)\n\nThe lamp blinks.",
        "The lamp blinks.",
        title="file.eml",
    ),
]

BODIES: Final = [
    _mail(
        "quoted-printable is read",
        b"Subject: a\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
        + quopri.encodestring(
            "Größe 7 kostet 5 €, das ist für alle ein guter und sehr fairer Preis, sagt der Chef der Halle.".encode()
        ),
        "Größe 7 kostet 5 €",
        "fairer Preis, sagt der Chef der Halle.",
    ),
    _mail(
        "base64 is read",
        f"Subject: a\nContent-Type: text/plain; charset=koi8-r\nContent-Transfer-Encoding: base64\n\n{_encoded(RUSSIAN, 'koi8-r')}\n",
        "Дети до семи лет",
    ),
    _mail(
        "letters of Windows that call themselves Latin-1 are read",
        b"Subject: a\nContent-Type: text/plain; charset=iso-8859-1\n\n"
        + "Fee: € 12 – don’t pay twice".encode("cp1252"),
        "Fee: € 12 – don’t pay twice",
    ),
    _mail(
        "letters without a name are guessed",
        b"Subject: a\n\n" + RUSSIAN.encode("cp1251"),
        "Музей открыт",
        warns=GUESSED,
    ),
    _mail(
        "Chinese that calls itself GB 2312 is read",
        b"Subject: a\nContent-Type: text/plain; charset=gb2312\n\n" + "朱镕基先生的仓库每天开放。".encode("gb18030"),
        "朱镕基先生的仓库",
    ),
    _mail(
        "Japanese mail is read",
        b"Subject: a\nContent-Type: text/plain; charset=iso-2022-jp\n\n"
        + "倉庫は九時に開きます。".encode("iso-2022-jp"),
        "倉庫は九時に開きます。",
    ),
    _mail(
        "Thunderbird's lines flow",
        "Subject: a\nContent-Type: text/plain; charset=utf-8; format=flowed\n\nThe ladder stands behind the \nboiler room.\n\nNext.",
        "The ladder stands behind the boiler room.",
        "Next.",
    ),
    _mail("quoted lines are kept", "Subject: a\n\nYes.\n\n> Is it on?\n", "Yes.", "Is it on?"),
    _mail(
        "a comment of a shell stays a line",
        "Subject: a\n\n# restart the pump\npumpctl up\n",
        "restart the pump",
        "pumpctl up",
    ),
    _mail(
        "a mail with Windows line ends is read",
        "Subject: a\r\n\r\nLine 1\r\nLine 2\r\n",
        "Line 1",
        "Line 2",
        head=_HEAD.replace("\n", "\r\n"),
    ),
    _mail(
        "what a customer system hides by its size is left out",
        "Subject: a\n"
        + _part(
            "<div style='font-size:1px; max-height:0px; overflow:hidden'>Your case moves on.</div>"
            "<div style='opacity: 0.0; color:#fff'>Read it now.</div><table><tr><td style='font-size:0px'>"
            "<div style='font-size:14px'>Case 88 is closed, its valve was replaced.</div></td></tr></table>"
            "<span style='font-size:0'>ref:_00A7.b2:ref</span><p style='opacity:0.9;max-height:0'>Part V7.</p>",
            "text/html; charset=utf-8",
        ),
        "Case 88 is closed, its valve was replaced.",
        "Part V7.",
        hides=("Your case", "Read it now", "ref:_"),
    ),
    _mail(
        "quotations of Thunderbird flow within themselves",
        "Subject: a\nContent-Type: text/plain; charset=utf-8; format=flowed\n\n"
        "Yes, take the \nlong one.\n> Which rope \n> do I take?\n>> Ropes are \n>> in hall 2.\n From there.\n-- \nRuth",
        "Yes, take the long one.",
        "> Which rope do I take?",
        ">> Ropes are in hall 2.",
        "From there. -- Ruth",
    ),
    _mail(
        "a preview that only lists of mails show is left out",
        "Subject: a\n"
        + _part(
            "<html><head><style type='text/css'>/* Teaser */ @import url(x.css); .preview, #top {display:none !important}"
            " @media screen and (max-width:480px){.wide{display:none!important} .narrow{display:block!important}}"
            " td.narrow{display:none}</style></head><body><span class='preview'>Three new pumps, and more.</span>"
            "<table><tr><td class=wide>Pump P9 has two litres.</td><td class=narrow>P9: 2 l</td></tr></table></body></html>",
            "text/html; charset=utf-8",
        ),
        "Pump P9 has two litres.",
        hides=("Three new pumps", "P9: 2 l"),
    ),
    _mail(
        "an HTML mail is read",
        "Subject: a\n" + _part("<p>Hall <b>5</b> is <i>cold</i>.</p><style>p{x:y}</style>", "text/html; charset=utf-8"),
        "Hall 5 is cold.",
        hides=("x:y",),
    ),
    _mail(
        "Outlook's mail is read",
        "Subject: a\n"
        + _several(
            "alternative",
            _part("The lift is repaired.\n"),
            _part(
                "<html xmlns:o=x><head><!--[if mso]><style>v</style><![endif]--></head><body><p class=MsoNormal>The lift is repaired.<o:p></o:p></p></body></html>",
                "text/html; charset=utf-8",
            ),
        ),
        "The lift is repaired.",
        hides=("mso",),
    ),
    _mail(
        "Outlook's table is read",
        "Subject: a\n"
        + _part(
            "<table class=MsoTableGrid><tr><td>Shift</td><td>Lead</td></tr><tr><td>Early</td><td>Ben</td></tr></table>",
            "text/html; charset=utf-8",
        ),
        "Shift",
        "Lead",
        "Early",
        "Ben",
    ),
]

PARTS: Final = [
    _mail(
        "an alternative is shown once",
        "Subject: a\n"
        + _several("alternative", _part("Gate 4 is shut."), _part("<p>Gate 4 is shut.", "text/html; charset=utf-8")),
        "Gate 4 is shut.",
    ),
    _mail(
        "an empty plain text gives way",
        "Subject: a\n" + _several("alternative", _part(" "), _part("<p>The valve leaks.", "text/html; charset=utf-8")),
        "The valve leaks.",
    ),
    _mail(
        "a plain text that only points to the other gives way",
        "Subject: a\n"
        + _several(
            "alternative",
            _part("This mail needs HTML."),
            _part(
                "<p>Dear all,<p>the roof of hall 9 is new since Monday and may be walked on again.",
                "text/html; charset=utf-8",
            ),
        ),
        "the roof of hall 9 is new",
    ),
    _mail(
        "Apple Mail's texts around a picture are all shown",
        "Subject: a\n"
        + _several(
            "mixed",
            _part("Above the picture."),
            _part(
                "aGk=",
                "image/png; name=p.png",
                "Content-Disposition: inline; filename=p.png\nContent-Transfer-Encoding: base64\n",
            ),
            _part("Below the picture."),
        ),
        "Above the picture.",
        "Below the picture.",
    ),
    _mail(
        "a plain text with HTML after it is all shown",
        "Subject: a\n"
        + _several("mixed", _part("Plain beginning."), _part("<p>HTML end.", "text/html; charset=utf-8")),
        "Plain beginning.",
        "HTML end.",
    ),
    _mail(
        "the footer of a mailing list shows",
        "Subject: a\n" + _several("mixed", _part("The saw is sharp."), _part("_____\nTo leave, write to saw-leave.")),
        "The saw is sharp.",
        "To leave, write to saw-leave.",
    ),
    _mail(
        "a text that is called an attachment shows if it is alone",
        "Subject: a\n" + _part("Only in here.", more="Content-Disposition: attachment; filename=a.txt\n"),
        "Only in here.",
    ),
    _mail(
        "a forwarded mail is shown",
        "Subject: Fwd\n"
        + _several(
            "mixed",
            _part("See below."),
            _part("From: Tim <tim@falk.example>\nSubject: Paint\n\nThe paint is green.", "message/rfc822"),
        ),
        "See below.",
        "Tim",
        "Paint",
        "The paint is green.",
    ),
    _mail(
        "an invitation shows what, where and when",
        "Subject: Drill\n" + _part(_EVENT, "text/calendar; method=REQUEST; charset=utf-8"),
        "Fire drill",
    ),
    _mail(
        "an invitation in an alternative is shown",
        "Subject: Drill\n"
        + _several(
            "alternative", _part("You are invited."), _part(_EVENT, "text/calendar; method=REQUEST; charset=utf-8")
        ),
        "You are invited.",
        "Yard 3",
    ),
    _mail(
        "attachments are named and said to be unread",
        "Subject: a\n"
        + _several(
            "mixed",
            _part("The plan is attached."),
            _part("JVBERi0=", "application/pdf; name=plan.pdf", _ATTACHED.format("plan.pdf")),
        ),
        "plan.pdf",
        "The plan is attached.",
        warns="not read",
    ),
    _mail(
        "names of attachments are decoded",
        "Subject: a\n"
        + _several(
            "mixed", _part("Hi."), _part("JVBERi0=", "application/pdf", _ATTACHED.format("=?utf-8?Q?Pl=C3=A4ne.pdf?="))
        ),
        "Pläne.pdf",
        warns="not read",
    ),
    _mail(
        "a picture in the text is no attachment",
        "Subject: a\n"
        + _several(
            "related",
            _part("<p>Logo <img src='cid:l' alt='Falk'> here.", "text/html; charset=utf-8"),
            _part("aGk=", "image/png", "Content-ID: <l>\nContent-Transfer-Encoding: base64\n"),
        ),
        "Logo",
        "here.",
    ),
    _mail(
        "a signed mail is read",
        "Subject: a\n"
        + _several(
            'signed; micalg=pgp-sha256; protocol="application/pgp-signature"',
            _part("The code is on the board."),
            _part("-----BEGIN PGP SIGNATURE-----\nabc\n-----END PGP SIGNATURE-----", "application/pgp-signature"),
        ),
        "The code is on the board.",
        hides=("PGP SIGNATURE",),
    ),
    _mail(
        "an encrypted mail says so",
        "Subject: a\n"
        + _several(
            'encrypted; protocol="application/pgp-encrypted"',
            _part("Version: 1", "application/pgp-encrypted"),
            _part("-----BEGIN PGP MESSAGE-----\nxyz", "application/octet-stream"),
        ),
        warns="encrypted",
    ),
    _mail(
        "a report of a failed delivery is shown",
        "Subject: Undelivered\n"
        + _several(
            "report; report-type=delivery-status",
            _part("Your mail did not arrive."),
            _part(
                "Reporting-MTA: dns; mx.falk.example\n\nFinal-Recipient: rfc822; ola@falk.example\nStatus: 5.1.1\n",
                "message/delivery-status",
            ),
        ),
        "Your mail did not arrive.",
        "ola@falk.example",
        "5.1.1",
    ),
    _mail(
        "a part whose end is missing is read",
        "Subject: a\nContent-Type: multipart/mixed; boundary=q\n\n--q\n" + _part("The end is missing."),
        "The end is missing.",
    ),
]

CASES: Final = [*HEADERS, *BODIES, *PARTS]
