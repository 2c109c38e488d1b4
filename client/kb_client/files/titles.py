"""Tells titles of documents from those that programs and templates write in their place."""

import re
from typing import Final

_NOTHING: Final = (
    r"untitled|no[ ]title|unbenannt(?:e[rs]?)?|unbetitelt|ohne[ ]titel|sans[ ]titre|sin[ ]t[ií]tulo|senza[ ]titolo|"
    r"naamloos|zonder[ ]titel|"
    r"sem[ ]t[ií]tulo|namnl[öo]s|uden[ ]titel|uten[ ]tittel|nimet[öo]n|bez[ ]tytu[łl]u|bez[ ]n[áa]zvu|"
    r"ba[şs]l.ks.z|без[ ](?:имени|названия)|无标题|無標題|無題|제목[ ]없음|\(?(?:no[ ]subject|kein[ ]betreff)\)?"
)
_DOCUMENT: Final = (
    r"documents?|dokumente?|documento|dokumentum|документ|文档|文件|文書|문서|page|webpage|web[ ]page|seite|"
    r"presentation|präsentation|présentation|presentaci[óo]n|presentazione|presentatie|apresenta[çc][ãa]o|"
    r"prezentacja|презентация|演示文稿|プレゼンテーション|"
    r"spreadsheet|workbook|worksheet|drawing|diagram|template|vorlage|mod[èe]le|plantilla|modello|szablon|шаблон"
)
_NUMBERED: Final = (
    r"slide|folie|diapositive|diapositiva|dia|slajd|слайд|幻灯片|スライド|슬라이드|"
    r"book|mappe|arbeitsmappe|classeur|libro|cartel|map|zeszyt|книга|工作簿|sheet|tabelle|feuille|hoja|foglio"
)
_PROGRAM: Final = (
    r"(?:microsoft[ ]|ms[ ])?(?:office[ ])?(?:word|powerpoint|excel|publisher|visio)|(?:libre|open)office(?:[ ]\w+)?|"
    r"writer|impress|calc|pages|keynote|numbers|google[ ](?:docs|slides|sheets)|adobe[ ]\w+|acrobat"
)
_OF_PROGRAMS: Final = re.compile(
    rf"""
    (?:{_NOTHING}) (?:[ _-]? (?:{_DOCUMENT}|{_NUMBERED}))? [ _-]? \(?\d*\)?
    | (?:new|neue[rs]?|nouveau|nuevo|nuovo)[ ](?:text[ -]?)?(?:{_PROGRAM})?[ -]*(?:{_DOCUMENT}) [ _-]? \(?\d*\)?
    | (?:{_DOCUMENT}) [ _-]? \(?\d*\)? (?:[ ]title)?
    | (?:{_NUMBERED}) [ _-]? [1-9]\d*
    | (?:{_PROGRAM}) (?:[ -]+(?:{_DOCUMENT}))? [ ]? \d*
    | (?:{_DOCUMENT}) [ -]+ (?:{_PROGRAM})
    | microsoft[ ](?:office[ ])?(?:word|powerpoint|excel|publisher|visio)[ ]-[ ].*
    | enscript[ ]output
    | title | titel | titre | t[íi]tulo | titolo | (?:click[ ]to[ ]add|document)[ ]title
    """,
    re.IGNORECASE | re.VERBOSE,
)


_PATH_OF_A_FILE: Final = re.compile(
    r"(?:[a-z]:[\\/]|\\\\[\w.-]+\\|file://|/(?:home|users|tmp|var|mnt)/).*", re.IGNORECASE
)


def own_title(title: str | None) -> str | None:
    """Return a title on one line, or None if it is none or one that a program or a template has written."""
    plain = " ".join((title or "").split())
    return None if not plain or _OF_PROGRAMS.fullmatch(plain) or _PATH_OF_A_FILE.fullmatch(plain) else plain
