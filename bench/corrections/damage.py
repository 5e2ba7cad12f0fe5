"""What happens to records before they arrive: slips, gaps, foreign formats."""

from __future__ import annotations

import string
from datetime import date
from random import Random

NOTHINGS = (None, "", "N/A", "-")


def slipped(rng: Random, text: str) -> str:
    """The text with one typing slip in a letter: wrong, missing, doubled, or swapped with the next."""
    letters = [at for at, each in enumerate(text) if each.isalpha()]
    at = rng.choice(letters)
    match rng.randrange(5):
        case 0:
            return text[:at] + rng.choice(string.ascii_lowercase) + text[at + 1 :]
        case 1:
            return text[:at] + text[at + 1 :]
        case 2:
            return text[:at] + text[at] + text[at:]
        case 3:
            return text[:at] + text[at + 1 : at + 2] + text[at] + text[at + 2 :]
        case _:
            return rng.choice((text.upper(), text.lower(), f" {text}", f"{text} "))


def slips(one: str, other: str) -> int:
    """Levenshtein's distance with swaps, ignoring case and outer space. The bench's own, to check the other one."""
    a, b = one.strip().lower(), other.strip().lower()
    table = [[i + j if not i * j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            cost = a[i - 1] != b[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + cost)
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


def written(day: date, style: str) -> str:
    """A day as people of that style write it."""
    match style:
        case "dmy.":
            return f"{day.day:02d}.{day.month:02d}.{day.year}"
        case "dmy/":
            return f"{day.day:02d}/{day.month:02d}/{day.year}"
        case "mdy/":
            return f"{day.month:02d}/{day.day:02d}/{day.year}"
        case "tight":
            return f"{day:%Y%m%d}"
        case "named":
            return f"{day.day} {day:%b} {day.year}"
        case _:
            return f"{day:%Y/%m/%d}"


def shown(value: float, style: str) -> str:
    """A number as people of that style write it."""
    text = f"{value:,.2f}"
    match style:
        case "comma":
            return text.translate(str.maketrans(",.", ".,"))
        case "bare comma":
            return f"{value:.2f}".replace(".", ",")
        case "grouped":
            return text
        case "spaced":
            return text.replace(",", " ").replace(".", ",")
        case _:
            return f"{value:.2f}"
