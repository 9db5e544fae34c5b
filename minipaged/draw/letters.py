"""Lab: how wide words are, so that scenes can be laid out without a font at hand.

The widths are those of DejaVu Sans, in which matplotlib writes; Verdana's are the same
but for a few letters.
"""

from collections.abc import Sequence
from functools import lru_cache
from unicodedata import normalize

DPI = 100  # pixels of the page per inch
SMALL, PART, COUNT = 9.0, 10.0, 15.0  # points: remarks, names of parts, what is counted
LEAST = 6.5  # points: no word is written smaller

# Of " " to "~", in parts of EM: from the font's own table (hmtx) of advances.
EM = 2048
PLAIN = (
    651, 821, 942, 1716, 1303, 1946, 1597, 563, 799, 799, 1024, 1716, 651, 739, 651,
    690, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 1303, 690, 690, 1716,
    1716, 1716, 1087, 2048, 1401, 1405, 1430, 1577, 1294, 1178, 1587, 1540, 604,
    604, 1343, 1141, 1767, 1532, 1612, 1235, 1612, 1423, 1300, 1251, 1499, 1401,
    2025, 1403, 1251, 1403, 799, 690, 799, 1716, 1024, 1024, 1255, 1300, 1126, 1300,
    1260, 721, 1300, 1298, 569, 569, 1186, 569, 1995, 1298, 1253, 1300, 1300, 842,
    1067, 803, 1298, 1212, 1675, 1212, 1212, 1075, 1303, 690, 1303, 1716,
)  # fmt: skip
BOLD = (
    713, 934, 1067, 1716, 1425, 2052, 1786, 627, 936, 936, 1071, 1716, 778, 850,
    778, 748, 1425, 1425, 1425, 1425, 1425, 1425, 1425, 1425, 1425, 1425, 819, 819,
    1716, 1716, 1716, 1188, 2048, 1585, 1561, 1503, 1700, 1399, 1399, 1681, 1714,
    762, 762, 1587, 1305, 2038, 1714, 1741, 1501, 1741, 1577, 1475, 1397, 1663,
    1585, 2259, 1579, 1483, 1485, 936, 748, 936, 1716, 1024, 1024, 1382, 1466, 1214,
    1466, 1389, 891, 1466, 1458, 702, 702, 1362, 702, 2134, 1458, 1407, 1466, 1466,
    1010, 1219, 979, 1458, 1335, 1892, 1321, 1335, 1192, 1458, 748, 1458, 1716,
)  # fmt: skip
MONOSPACE = 1233
SYMBOL = 1716  # an arrow, a sign of arithmetic, an unknown letter
OTHERS = {
    "·": 651, "‘": 651, "’": 651, "²": 821, "³": 821, "–": 1024, "“": 1061, "”": 1061,
    "ε": 1107, "•": 1208, "γ": 1212, "λ": 1212, "π": 1233, "δ": 1253, "ß": 1290,
    "Σ": 1294, "σ": 1298, "μ": 1303, "√": 1305, "β": 1307, "α": 1350, "φ": 1351,
    "∑": 1380, "Δ": 1401, "Ω": 1565, "∞": 1706, "∅": 1784, "∈": 1784, "½": 1985,
    "—": 2048, "…": 2048,
}  # fmt: skip


@lru_cache(maxsize=4096)
def width_of(
    words: str, size: float = SMALL, bold: bool = False, family: str = "sans"
) -> float:
    """Pixels from left to right, at so many points."""
    widths = BOLD if bold else PLAIN
    parts = 0
    for letter in normalize("NFD", words):
        if family == "monospace":
            parts += MONOSPACE
        elif " " <= letter <= "~":
            parts += widths[ord(letter) - ord(" ")]
        elif letter in OTHERS:
            parts += OTHERS[letter]
        elif not "\u0300" <= letter <= "\u036f":  # an accent takes no room
            parts += SYMBOL
    return parts / EM * size * DPI / 72


def visible(word: str) -> str:
    """A token's text without spaces around it, or a sign if nothing else is there."""
    return word.strip() or word.replace("\n", "⏎").replace(" ", "·") or "∅"


def lines_of(words: str, width: float, most: int) -> list[str]:
    """Words in lines so wide, as many as are needed; the last one may be too wide."""
    lines: list[str] = []
    for word in words.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and (width_of(longer) <= width or len(lines) >= most):
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def counted(number: int, thing: str) -> str:
    """So many things, in words."""
    return f"{number:,} {thing}" + "s" * (number != 1)


def listed(words: Sequence[str]) -> str:
    """One after another: `A`, `A and B`, `A, B and C`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def signed(number: float, digits: int = 2) -> str:
    """So many digits behind the point; a minus as long as a plus, and never -0."""
    return f"{round(number, digits) + 0.0:.{digits}f}".replace("-", "−")


def from_to(first: int, last: int) -> str:
    """Both with a dash between them: `4–7`; one if they are the same."""
    return f"{first}–{last}" if first < last else str(first)


def fit(word: str, width: float, size: float = SMALL) -> tuple[str, float]:
    """The word and its size: made smaller until it fits, in the end cut."""
    while width_of(word, size) > width and size > LEAST:
        size -= 0.5
    kept = word
    while len(kept) > 1 and width_of(word, size) > width:
        kept = kept[:-1]
        word = kept + "…"
    return word, size
