"""Makes Word files out of their XML, with elements that no library writes."""

import io
import zipfile
from typing import Final

_WORD: Final = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_NAMESPACES: Final = (
    f'xmlns:w="{_WORD}" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
    'xmlns:o="urn:schemas-microsoft-com:office:office" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" '
    'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape"'
)
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE: Final = "http://schemas.openxmlformats.org/package/2006"
_MEDIA_TYPE: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_KINDS: Final = {
    "styles": "styles", "numbering": "numbering", "footnotes": "footnotes", "endnotes": "endnotes",
    "comments": "comments", "settings": "settings", "header": "hdr", "footer": "ftr",
}  # fmt: skip


def paragraph(text: str, properties: str = "") -> str:
    return f'<w:p><w:pPr>{properties}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def word_file(body: str, others: dict[str, str] | None = None, **parts: str) -> bytes:
    """Return a Word file.

    Args:
        body: contents of `w:body`.
        others: XML of more parts by the ids of their relations, such as charts.
        parts: contents of parts by their kinds, such as `styles`; the id of the relation is the kind.
    """
    types = [f'<Override PartName="/word/document.xml" ContentType="{_MEDIA_TYPE}.document.main+xml"/>']
    relations, files = [], {}
    for kind, content in parts.items():
        types.append(f'<Override PartName="/word/{kind}.xml" ContentType="{_MEDIA_TYPE}.{kind}+xml"/>')
        relations.append(f'<Relationship Id="{kind}" Type="{_OFFICE}/{kind}" Target="{kind}.xml"/>')
        files[f"word/{kind}.xml"] = f"<w:{_KINDS[kind]} {_NAMESPACES}>{content}</w:{_KINDS[kind]}>"
    for relation_id, xml in (others or {}).items():
        relations.append(f'<Relationship Id="{relation_id}" Type="{_OFFICE}/other" Target="{relation_id}.xml"/>')
        files[f"word/{relation_id}.xml"] = xml
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
            f'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f"{''.join(types)}</Types>",
        )
        start = f'<Relationship Id="d" Type="{_OFFICE}/officeDocument" Target="word/document.xml"/>'
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{_PACKAGE}/relationships">{start}</Relationships>')
        archive.writestr(
            "word/_rels/document.xml.rels",
            f'<Relationships xmlns="{_PACKAGE}/relationships">{"".join(relations)}</Relationships>',
        )
        archive.writestr("word/document.xml", f"<w:document {_NAMESPACES}><w:body>{body}</w:body></w:document>")
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()
