"""From a page that was fetched to a document that can be found. One function of one record, for the flow."""

from __future__ import annotations

import base64
import re
from typing import Any

from examples.harvest.crawler.address import absolute
from examples.harvest.html_reader import read_html

_WORD = re.compile(r"\w+")

COMMON_WORDS = {
    "de": frozenset(_WORD.findall("das dem den der die ein eine es ist mit nicht und von wer zu")),
    "en": frozenset(_WORD.findall("a and at by he his in is it of on that the there to was with")),
    "fr": frozenset(_WORD.findall("au avec dans de des du et il la le les on pour que sur un une y")),
}
UNKNOWN = ""
LEAST_WORDS = 3  # of a language before it is believed


def extract(page: dict[str, Any]) -> dict[str, Any]:
    """The document of a page, or the news that there is none any more. Raises what is wrong with the page."""
    about = {"url": page["url"], "site": page["site"], "crawl": page["crawl"]}
    if page["is_gone"]:
        return {**about, "title": "", "text": "", "language": UNKNOWN, "links": [], "words": 0, "gone": True}
    reading = read_html(base64.b64decode(page["body"]), page["content_type"])
    links = (absolute(link, page["url"]) for link in reading.links)
    return {
        **about,
        "title": reading.title or page["url"],
        "text": reading.text,
        "language": guess_language(reading.text, reading.language),
        "links": sorted({link for link in links if link is not None}),
        "words": len(_WORD.findall(reading.text)),
        "gone": False,
    }


def guess_language(text: str, said: str | None) -> str:
    """By the small words, which nobody can do without; otherwise what the page says; otherwise nothing."""
    words = _WORD.findall(text.lower())
    counts = {language: sum(word in common for word in words) for language, common in COMMON_WORDS.items()}
    best = max(counts, key=lambda language: counts[language])
    is_clear = counts[best] >= LEAST_WORDS and list(counts.values()).count(counts[best]) == 1
    return best if is_clear else (said or UNKNOWN).split("-")[0].lower()[:8]
