"""Words that name columns and are seldom a value, in the languages of most tables that people keep."""

import re
from typing import Final

_LIST: Final = (
    # English
    " action address age amount answer answers article average balance born category cause change city class"
    " code colour color column comment comments company condition contact cost costs count country created currency"
    " date day days deadline default department description discount due duration email end ended"
    " error event example explanation field file format frequency function height hours id index item"
    " from job key kind label language last length level limit limits line link list location mail max maximum meaning"
    " method min minimum model module month name names nationality no note notes number occupation"
    " order page parameter part party percent percentage period person phone place position price priority"
    " process product profession project property purpose qty quantity question range rank rate rating reason reference"
    " region remark remarks remedy requirement response responsible result revenue role room rule salary score section"
    " serial setting severity share shift since site size sku solution speed start started state"
    " status step street sum surname symptom task team telephone temperature term terms"
    " test time title to topic total type unit units until updated url use username valid value values variable"
    " version voltage volume warehouse week weight who width year years zip"
    # German
    " abteilung adresse aktion alter anforderung ansprechpartner antwort anzahl art artikel artikelnummer aufgabe"
    " autor bedeutung beginn bemerkung bemerkungen benennung beruf beschreibung bestand betrag bezeichnung breite"
    " dauer datei datum einheit ende ergebnis farbe feld firma frage frist funktion gebäude geburtsdatum gewicht grenze"
    " größe grund gruppe gültig hinweis höhe inhalt jahr kategorie kennzahl klasse kosten land"
    " länge lösung maßnahme menge merkmal monat nachname nr nummer ort phase plz position preis"
    " produkt projekt prozent quelle rang raum rechnung regel rolle schritt seite sparte spalte stadt standort status"
    " straße stück summe tätigkeit telefon termin thema titel typ umsatz ursache verantwortlich version vorname"
    " wert woche zeit zeitraum ziel zimmer zuständig"
    # French, Spanish, Italian, Portuguese, Dutch
    " adresse année catégorie commentaire coût date début délai désignation description durée fin"
    " fonction lieu libellé mois montant nom nombre pays poids prénom prix produit quantité"
    " référence région remarque taille taux téléphone titre total unité valeur ville"
    " apellido artículo cantidad ciudad código descripción dirección estado fecha importe mes nombre número"
    " país precio producto teléfono tipo valor"
    " anno categoria cognome data descrizione importo indirizzo luogo mese nome numero paese prezzo prodotto"
    " quantità telefono tipo valore"
    " aantal adres bedrag datum eenheid jaar naam omschrijving opmerking plaats prijs soort stad waarde"
)
_WORDS: Final = frozenset(_LIST.split())
_IDENTIFIER: Final = re.compile(r"[a-z]+(?:_[a-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+|[A-Z]+(?:_[A-Z0-9]+)+")
_LINKS: Final = "of per in for until before after de des du del der die das pro je für bis di van por par"
_BETWEEN: Final = frozenset(_LINKS.split())
_MOST_WORDS: Final = 4
_IN_BRACKETS: Final = re.compile(r"\(.*?\)|\[.*?\]")
_PART: Final = re.compile(r"[^\W\d_]+")


def is_column_name(text: str) -> bool:
    """Return whether a text is such a word, with others before it (`unit price`) or after it (`date of birth`)."""
    if _IDENTIFIER.fullmatch(text):
        return True
    plain = _IN_BRACKETS.sub("", text)
    words = _PART.findall(plain.lower())
    if not words or len(words) > _MOST_WORDS or any(character.isdigit() for character in plain):
        return False
    return words[-1] in _WORDS or (len(words) > 1 and words[0] in _WORDS and words[1] in _BETWEEN)
