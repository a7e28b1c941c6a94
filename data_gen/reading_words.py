"""Words, names and numbers of reading pages, drawn one by one: what stands beside a word says nothing about it.

Real words come from word lists; pseudo-words, numbers, codes and the few foreign names are made here. Nothing is
taken from an encyclopedia.
"""

import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tilewright.configs.errors import InputError

MAX_LETTERS = 22


def _listed(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_COMMON = _listed(  # the commonest first
    "the of and to a in that is was he for it with as his on be at by I this had not are but from or have an they"
    " which one you were her all she there would their we him been has when who will more no if out so said what up"
    " its about into than them can only other new some could time these two may then do first any my now such like"
    " our over man me even most made after also did many before must through back years where much your way well"
    " down should because each just those people how too little state good very make world still own see men work"
    " long get here between both life being under never day same another know while last might us great old year off"
    " come since against go came right used take three however during known several called number part city began"
    " until later among born large second following small form often within north south east west river national war"
    " name century found became use area groups system high different without although production company held"
    " island music film population"
)
_COMMON_WEIGHTS = [1 / (rank + 4) for rank in range(len(_COMMON))]
_ONSETS = _listed(
    "b bl br c ch cl cr d dr f fl fr g gl gr h j k kl kn l m n p ph pl pr qu r s sc sh sk sl sn sp st sw t th tr v w wh"
    " x y z"
)
_NUCLEI = _listed("a e i o u y ae ai au ea ee ei eu ia ie io oa oo ou ue")
_CODAS = ("", *_listed("b ck d f g k l ll m n nd ng nt p r rd rk rn s sh sk ss st t th tz v w x z zz ff mp lf"))
_MONTHS = _listed("January February March April May June July August September October November December")
_ACCENTED = _listed(
    "Müller François Dvořák São Ångström Łódź Göteborg Zürich Málaga Curaçao Besançon Kraków Reykjavík Tromsø Århus"
    " Málå İzmir Niğde Şişli Győr Pécs Žilina Škoda Plzeň Brăila Iași Çelik Ñuñoa Peñarol Béla Zoë Noël Renée José"
    " Jürgen Søren Strömstad Chloé Jiří Håkon Dąbrowski Ștefan Tōkyō Kyūshū Hồ Việt naïve café façade rôle"
)
_OTHER_SCRIPTS = _listed("Αθήνα Θεσσαλονίκη Москва Казань Київ София 北京 東京 大阪 서울 القاهرة ירושלים เชียงใหม่ दिल्ली")
_SIGNS = _listed("– – – – — — × ° ± € £ § © → • … µ ½ ′ ″ − ≤ π")
_LOWER, _UPPER, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
_ASCII_SIGNS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_KINDS = {
    "common": 40, "word": 27, "name": 9, "pseudo_word": 7, "number": 8, "capitalised": 4, "capitals": 2.2,
    "compound": 2.5, "initials": 1.2, "code": 3, "identifier": 1, "address": 0.4, "accented": 0.9, "sign": 0.15,
    "other_script": 0.05,
}  # fmt: skip
_NUMBERS = {
    "year": 5, "date": 3, "decimal": 2, "thousands": 2.5, "percentage": 1.5, "coordinates": 0.5, "isbn": 0.3,
    "integer": 4, "money": 1, "clock": 0.7, "years": 1.5, "ordinal": 1, "roman": 0.7, "version": 0.6, "unit": 1.5,
}  # fmt: skip
_ROMANS = _listed("I II III IV V VI VII VIII IX")
_UNITS = _listed("km m cm mm kg g t ha km2 mph ft in lb oz GHz MHz kB MB GB kW V A K C F s ms min h bn")


@dataclass(frozen=True)
class ReadingWords:
    """Draws of single words; ``words`` begin in lower case, ``names`` with a capital. Either may be empty."""

    words: Sequence[str]
    names: Sequence[str]

    def token(self, random: Random) -> str:
        """A word, name, number or code, plain text without blanks at its ends."""
        (kind,) = random.choices(list(_KINDS), list(_KINDS.values()))
        return str(getattr(self, kind)(random))

    def common(self, random: Random) -> str:
        """One of the commonest English words."""
        return random.choices(_COMMON, _COMMON_WEIGHTS)[0]

    def word(self, random: Random) -> str:
        """A word of the lists, all of them as likely; seldom with 's."""
        word = random.choice(self.words) if self.words else self.pseudo_word(random)
        return word + "'s" if random.random() < 0.03 else word

    def name(self, random: Random) -> str:
        """A name of the lists."""
        return random.choice(self.names) if self.names else self.pseudo_word(random).capitalize()

    def pseudo_word(self, random: Random) -> str:
        """One to four syllables that mean nothing."""
        count = random.choices((1, 2, 3, 4), (2, 5, 3, 1))[0]
        parts = (random.choice(_ONSETS) + random.choice(_NUCLEI) + random.choice(_CODAS) for _ in range(count))
        word = "".join(parts)[:MAX_LETTERS]
        return word.capitalize() if random.random() < 0.25 else word

    def capitalised(self, random: Random) -> str:
        """A word with a capital, as in titles."""
        return self.word(random).capitalize()

    def capitals(self, random: Random) -> str:
        """A word or short name all in capitals."""
        if random.random() < 0.4:
            return "".join(random.choices(_UPPER, k=random.randint(2, 5)))
        return (self.name(random) if random.random() < 0.5 else self.word(random)).upper()

    def compound(self, random: Random) -> str:
        """Two words joined by a hyphen, or a stroke."""
        return self.word(random) + random.choice("----/") + random.choice((self.word, self.common, self.name))(random)

    def initials(self, random: Random) -> str:
        """A person's name with initials."""
        first = " ".join(f"{letter}." for letter in random.choices(_UPPER, k=random.randint(1, 2)))
        return f"{first} {self.name(random)}"

    def accented(self, random: Random) -> str:
        """A name with letters outside ASCII."""
        return random.choice(_ACCENTED)

    def other_script(self, random: Random) -> str:
        """A name in another script."""
        return random.choice(_OTHER_SCRIPTS)

    def sign(self, random: Random) -> str:
        """A sign outside ASCII."""
        return random.choice(_SIGNS)

    def number(self, random: Random) -> str:
        """A year, date, decimal, amount...: digits and what stands between them."""
        (kind,) = random.choices(list(_NUMBERS), list(_NUMBERS.values()))
        return number(kind, random)

    def identifier(self, random: Random) -> str:
        """Letters and digits that no vocabulary helps with."""
        letters = "".join(random.choices(_UPPER if random.random() < 0.7 else _LOWER, k=random.randint(1, 4)))
        digits = "".join(random.choices(_DIGITS, k=random.randint(1, 5)))
        mixed = "".join(random.choices(_LOWER + _UPPER + _DIGITS, k=random.randint(4, 10)))
        return random.choice((f"{letters}-{digits}", f"{letters}{digits}", f"{digits}{letters}", mixed))

    def address(self, random: Random) -> str:
        """A web or mail address, or a path."""
        first, second = (self.word(random).lower().replace("'", "") for _ in range(2))
        end = random.choice(("org", "com", "net", "de", "co.uk", "invalid"))
        return random.choice(
            (f"https://www.{first}.{end}/{second}", f"{first}.{second}@{first}.{end}", f"/{first}/{second}.txt")
        )

    def code(self, random: Random) -> str:
        """A piece of a program: all ASCII signs occur."""
        a, b = (random.choice((self.word, self.pseudo_word, self.common))(random).lower() for _ in range(2))
        sign, other = random.choices(_ASCII_SIGNS, k=2)
        count = random.randint(0, 99)
        return random.choice((
            f"{a}_{b}", f"{a}({b})", f"{a}[{count}]", f"{{{a}: {b}}}", f"${a}", f"--{a}={b}", f"<{a}>", f"{a}|{b}",
            f"{a} != {b}", f"{a} <= {count}", f"#{a}", f"@{b}", f"`{a}`", f"~/{a}", f"\\{a}", f"{a}*{count}",
            f"{a}^{count}", f"{a} & {b}", f"{a} + {b}", f"{a}: \"{b}\"", f"'{a}'", f"{a};", f"{a}{sign}{b}", f"{a}?",
            f"{a}{sign}{other}{b}", f"{sign}{b}{other}", f"{a.upper()}_{b.upper()}", f"{a} -> {b}!",
        ))  # fmt: skip


def number(kind: str, random: Random) -> str:
    """A number of ``kind`` (year, date, isbn, ...) as people write them."""
    year, integer = random.randint(1000, 2035), random.randint(0, 10 ** random.randint(1, 5))
    day, month = random.randint(1, 28), random.randrange(12)
    decimal = f"{random.uniform(0, 10 ** random.randint(0, 3)):.{random.randint(1, 3)}f}"
    match kind:
        case "year":
            return str(year)
        case "date":
            name = _MONTHS[month]
            return random.choice((
                f"{day} {name} {year}", f"{name} {day}, {year}", f"{year}-{month + 1:02d}-{day:02d}",
                f"{day}/{month + 1}/{year}", f"{name} {year}", f"{name[:3]} {day}",
                f"{day}.{month + 1}.{year % 100:02d}",
            ))  # fmt: skip
        case "decimal":
            return random.choice(("", "", "", "-", "+")) + decimal
        case "thousands":
            return f"{random.randint(1000, 10 ** random.randint(4, 8)):,}"
        case "percentage":
            return f"{decimal}%"
        case "coordinates":
            degrees = f"{random.uniform(-90, 90):.4f}, {random.uniform(-180, 180):.4f}"
            return random.choice((degrees, degrees, f"{day}°{month + 10}′{day + 20}″{random.choice('NSEW')}"))
        case "isbn":
            digits = "".join(random.choices(_DIGITS, k=9))
            return (
                f"{random.choice(('978', '979'))}-{digits[0]}-{digits[1:4]}-{digits[4:]}-{random.choice('0123456789X')}"
            )
        case "money":
            return random.choice("$$$$€£") + f"{random.randint(1, 10 ** random.randint(1, 6)):,}"
        case "clock":
            return f"{random.randint(0, 23)}:{random.randint(0, 59):02d}"
        case "years":
            return f"{year}{random.choice('--–')}{random.choice((year + day, f'{(year + day) % 100:02d}'))}"
        case "ordinal":
            return f"{day}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10 if day not in (11, 12, 13) else 0, 'th') }"
        case "roman":
            return random.choice(("", "X", "XX", "XL", "L", "C")) + random.choice(_ROMANS)
        case "version":
            return f"{month}.{day}.{random.randint(0, 20)}"
        case "unit":
            return f"{random.choice((decimal, integer))} {random.choice(_UNITS)}"
    return str(integer)


def read_word_lists(folder: Path, patterns: Sequence[str]) -> ReadingWords:
    """The words of the files below ``folder`` that match ``patterns`` (plain or gzip, UTF-8, any words a line).

    Raises InputError for a pattern that no file matches.
    """
    found: set[str] = set()
    for pattern in patterns:
        files = [path for path in folder.glob(pattern) if path.is_file()]
        if not files:
            raise InputError(f"words: {pattern!r}: wanted word lists below {folder}, found no file of that name")
        for path in files:
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            found.update(_WORD.findall(data.decode("utf-8", errors="replace")))
    kept = sorted(word for word in found if len(word) <= MAX_LETTERS and not word.endswith(("'s", "’s")))
    return ReadingWords(
        tuple(word for word in kept if word[0].islower()), tuple(word for word in kept if not word[0].islower())
    )
