"""Names in running text: who is a person, and which places are countries, states or cities."""

import re
from dataclasses import dataclass
from typing import Self

from tilewright.data_gen.grounded.lexicon import FUNCTION_WORDS, words

GIVEN_NAMES = words(
    """Aaron Abigail Abraham Adam Ada Adolf Adrian Agnes Alain Alan Albert Aldous Alec Alexander Alexei Alfred Alice
Allan Allen Allison Alonzo Amanda Amelia Anatoly Anders André Andre Andrei Andrew Angela Ann Anna Anne Anthony Antoine
Antoni Anton Antonio Archibald Arnold Arthur Audrey August Auguste Augustus Ayn Barack Barbara Barry Ben Benjamin
Bernard Bernhard Bertrand Betty Bill Billy Bob Boris Brad Brian Brooke Bruce Burt Buzz Carl Carlo Carlos Caroline
Catherine Cecil Charles Charlotte Chris Christian Christopher Claude Clint Cole Craig Cyrus Dale Dan Daniel David Dean
Deborah Denis Diana Dick Dmitri Don Donald Doris Dorothy Douglas Duncan Dwight Edgar Edmund Eduard Edward Edwin Eleanor
Elizabeth Ella Ellen Elsa Emil Emile Émile Emily Emma Enrico Eric Erik Ernest Ernst Erwin Esther Eugene Eva Evelyn
Ferdinand Fidel Florence Frances Francis Francisco Frank Franz Fred Frederick Friedrich Fritz Gary Gene Geoffrey Georg
George Georges Gerald Gerard Gertrude Giovanni Giuseppe Gordon Grace Greg Gregory Guido Gustav Gustave Guy Hamid Hannah
Hans Harold Harriet Harry Hassan Heinrich Helen Helena Henri Henry Herbert Herman Hermann Hillary Horatio Howard Hubert
Hugh Hugo Humphry Ian Ibrahim Ilham Ilya Immanuel Ira Isaac Isabella Isidore Ivan Jack Jackie Jacob Jacques James Jan
Jane Janet Jason Jay Jean Jeff Jefferson Jeffrey Jeremy Jerry Jesse Jessica Jim Jimmy Joan Joe Johann Johannes John
Johnny Jonas Jonathan José Josef Joseph Joshua Josiah Juan Judith Julia Julian Julius Karel Karen Karl Kate Katharine
Katherine Kathleen Keith Kenneth Kevin Kirk Kurt Lance Lars Larry Laura Laurence Lawrence Lee Leland Leo Leon Leonard
Leonardo Leonid Leopold Leslie Lewis Liam Linda Lloyd Lois Lou Louis Louise Lucy Ludwig Luigi Luis Luke Luther Lyndon
Lysander Manuel Marcel Marco Marcus Margaret Maria Marie Mario Mark Martha Martin Mary Matthew Maurice Max Maximilian
Maxwell Michael Michel Mike Mikhail Mohammad Mohammed Morris Moses Muhammad Murray Nancy Napoleon Nathaniel Neil Nelson
Niccolò Nicholas Nick Nicolas Niels Nikita Nikolai Noam Norman Olaf Oliver Oscar Oskar Otto Pablo Patricia Patrick Paul
Pedro Peter Phil Philip Philippe Pierre Piotr Rachel Ralph Randolph Ray Raymond Rebecca René Rex Ricardo Richard Rick
Robert Roberto Robin Roger Roland Roman Ron Ronald Rosa Roy Rudolf Rupert Russell Ruth Salvador Sam Samuel Sarah Scott
Sergei Seymour Sharon Shirley Sigmund Simon Sophia Spiro Stanley Stefan Stephen Steve Steven Stuart Susan Sylvia Ted
Teresa Theodor Theodore Thomas Tim Timothy Tom Tony Ulysses Ursula Vasily Vernon Victor Victoria Viktor Vincent
Virginia Vladimir Walter Warren Wayne Werner Wilhelm Willem William Willie Winfield Winston Wolfgang Woodrow Yuri
Zachary"""
)

SINGLE_NAMES = words(
    """Achilles Aeschylus Agamemnon Anaxagoras Apollo Archimedes Aristotle Artemis Athena Averroes Avicenna Cicero
    Democritus Descartes Epicurus Euclid Galen Galileo Hector Hermes Herodotus Hesiod Hippocrates Homer Leibniz
    Lucretius Michelangelo Odysseus Ovid Patroclus Plato Pliny Plutarch Poseidon Ptolemy Pythagoras Socrates Sophocles
    Strabo Theophrastus Thucydides Virgil Voltaire Zeus"""
)

_COUNTRIES = words(
    """Afghanistan Albania Algeria Angola Argentina Armenia Australia Austria Azerbaijan Bangladesh Belarus
Belgium Bolivia Botswana Brazil Bulgaria Burma Cambodia Cameroon Canada Chad Chile China Colombia Croatia Cuba Cyprus
Denmark Ecuador Egypt England Estonia Ethiopia Finland France Germany Ghana Greece Greenland Guatemala Hungary Iceland
India Indonesia Iran Iraq Ireland Israel Italy Jamaica Japan Jordan Kazakhstan Kenya Kuwait Kyrgyzstan Laos Latvia
Lebanon Libya Lithuania Luxembourg Macedonia Malaysia Mali Malta Mexico Moldova Mongolia Montenegro Morocco Mozambique
Namibia Nepal Netherlands Nicaragua Niger Nigeria Norway Oman Pakistan Panama Paraguay Peru Philippines Poland Portugal
Qatar Romania Russia Rwanda Scotland Senegal Serbia Singapore Slovakia Slovenia Somalia Spain Sudan Sweden Switzerland
Syria Taiwan Tajikistan Tanzania Thailand Tunisia Turkey Turkmenistan Uganda Ukraine Uruguay Uzbekistan Venezuela
Vietnam Wales Yemen Zambia Zimbabwe"""
)
_STATES = words(
    """Alabama Alaska Arizona Arkansas California Colorado Connecticut Delaware Florida Idaho Illinois Indiana
Iowa Kansas Kentucky Louisiana Maine Maryland Massachusetts Michigan Minnesota Mississippi Missouri Montana Nebraska
Nevada Ohio Oklahoma Oregon Pennsylvania Tennessee Texas Utah Vermont Virginia Wisconsin Wyoming"""
)
_CITIES = words(
    """Alexandria Amsterdam Anchorage Athens Atlanta Baku Baltimore Barcelona Beijing Berlin Birmingham Boston
Brussels Budapest Cairo Calgary Chicago Copenhagen Dallas Dubai Dublin Edmonton Florence Frankfurt Geneva Hamburg
Havana Helsinki Houston Huntsville Istanbul Kabul Leipzig Leningrad Lisbon London Luanda Madrid Melbourne Milan
Montgomery Montreal Moscow Munich Naples Oslo Ottawa Oxford Paris Philadelphia Prague Princeton Rome Seattle Sydney
Tirana Tokyo Toronto Venice Vienna Warsaw Zürich Zurich Philadelphia Richmond Springfield Denver Detroit Minneapolis"""
)
PLACE_KINDS = (
    dict.fromkeys(sorted(_CITIES), "city")
    | dict.fromkeys(sorted(_STATES), "state")
    | dict.fromkeys(sorted(_COUNTRIES), "country")
    | dict.fromkeys(("New York City", "Los Angeles", "San Francisco", "Las Vegas", "New Orleans"), "city")
    | dict.fromkeys(("North Carolina", "South Carolina", "New Mexico", "New Jersey", "North Dakota"), "state")
    | dict.fromkeys(("South Africa", "New Zealand", "Saudi Arabia", "Sri Lanka", "Costa Rica"), "country")
)
"""{place: what a question calls it}; places that are persons' or ships' names as often are left out."""

WORD = r"[A-ZÀ-ÖØ-Þ][\w'’-]*"
_PARTICLES = "de|da|di|du|del|della|von|van|der|den|la|le|al|bin|ibn"
NAME = rf"{WORD}(?:(?: (?:{_PARTICLES}|of the|of))* (?:[A-Z]\.(?= [A-Z])|{WORD}))*"
_CLASS_WORDS = words(
    """Academy Act Agency Agreement Airport Amendment Archipelago Army Association Award Bank Battle Bay Bridge Campaign
    Canal Castle Cathedral Championship Church College Commission Committee Company Conference Congress Constitution
    Convention Corporation Council County Court Cup Declaration Desert Dynasty Empire Expedition Festival Foundation
    Front Glacier Gulf Institute Institution Island Islands Journal Kingdom Laboratory Lake League Library Medal
    Ministry Mission Monastery Mountain Mountains Movement Museum Navy Observatory Ocean Olympics Organization Palace
    Park Party Peninsula Prize Province Project Protocol Regiment Republic Revolution River School Sea Senate Society
    Stadium Strait Temple Theatre Theater Theorem Theory Treaty Tribe Union University Valley War"""
)
CLASS_WORDS = "|".join(sorted(_CLASS_WORDS))
"""Words that say what a name names: *University of Vienna*, *Nile River*."""
_FULL_NAME = re.compile(rf"(?<![\w.-])({WORD})((?: [A-Z]\.)* (?:(?:{_PARTICLES}) )*{WORD})")


@dataclass(frozen=True)
class Wording:
    """What a text shows of its own words: names of persons, words written in lower case, words that are names."""

    persons: frozenset[str]
    common: frozenset[str]
    capitalised: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Self:
        """Read off ``text``: a capital inside a sentence is a name's, one at its start says nothing."""
        common = frozenset(re.findall(r"\b[a-z]+\b", text))
        capitalised = frozenset(re.findall(rf"(?<=[\w,;] ){WORD}", text))
        return cls(persons_in(text), common, capitalised)

    def inside(self, clause: str) -> str | None:
        """``clause``, a sentence's start, as it's written inside another; None if its first word's case is unknown."""
        first, space, rest = clause.partition(" ")
        if first.casefold() in FUNCTION_WORDS or (first.casefold() in self.common and first not in self.capitalised):
            return first[:1].lower() + first[1:] + space + rest
        if first in self.capitalised or first in GIVEN_NAMES or first in SINGLE_NAMES or first[1:] != first[1:].lower():
            return clause
        return None


def persons_in(text: str) -> frozenset[str]:
    """Names that ``text`` itself shows to be persons': ``Frank Borman`` by its given name, and so ``Borman`` too."""
    found = set()
    for match in _FULL_NAME.finditer(text):
        if match.group(1) in GIVEN_NAMES:
            name = re.sub(r"['’]s$", "", match.group())
            found |= {name, name.split()[-1]}
    return frozenset(name for name in found if name not in PLACE_KINDS and name not in GIVEN_NAMES)


def is_person(name: str, persons: frozenset[str]) -> bool:
    """Whether ``name`` is a person's: seen as one, starting with a given name, or an ancient's single name."""
    first, *rest = name.split()
    if name in persons or name in SINGLE_NAMES:
        return True
    return first in GIVEN_NAMES and bool(rest) and " of " not in name
