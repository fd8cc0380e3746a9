"""Names that no model has met: invented roots, and a few real words to go with them."""

from __future__ import annotations

from typing import Final

from turngym.envs.builtin.search.dice import Dice

_ONSETS: Final = (
    "b", "br", "d", "dr", "f", "fl", "g", "gl", "gr", "h", "k", "kl", "kr", "l", "m", "n", "p", "pl", "pr", "r",
    "s", "sk", "sn", "st", "t", "tr", "v", "vr", "z",
)  # fmt: skip
_VOWELS: Final = ("a", "e", "i", "o", "u", "ae", "ei")
_MIDDLES: Final = (
    "b", "d", "g", "k", "l", "ld", "lk", "lm", "m", "n", "nd", "ng", "r", "rd", "rk", "rn", "rv", "sk", "st",
    "t", "th", "v", "z",
)  # fmt: skip
_ENDINGS: Final = (
    "ad", "ak", "al", "am", "ar", "ask", "eb", "eck", "el", "em", "ent", "erg", "esh", "eth", "ik", "il", "ith",
    "ob", "ok", "om", "orn", "osk", "ov", "ud", "ul", "umb", "urn",
)  # fmt: skip
_LONGEST_SEARCH: Final = 1000

PROFESSIONS: Final = (
    "baker", "beekeeper", "botanist", "bookbinder", "cartographer", "chemist", "clockmaker", "composer",
    "diver", "falconer", "gardener", "geologist", "glassblower", "harbour pilot", "judge", "lensmaker",
    "librarian", "locksmith", "midwife", "miller", "painter", "potter", "saddler", "sculptor", "surveyor",
    "translator", "weaver",
)  # fmt: skip
PRODUCTS: Final = (
    "anchors", "barometers", "bells", "bicycles", "buttons", "candles", "ceramic tiles", "compasses", "cranes", "dyes",
    "fishing nets", "harmoniums", "kettles", "lanterns", "looms", "microscopes", "needles", "paper", "pencils", "pumps",
    "rope", "sails", "scales", "soap", "spectacles", "stoves", "telescopes", "typewriters", "umbrellas", "violins",
)  # fmt: skip
INDUSTRIES: Final = (
    "Brothers", "Foundry", "Instruments", "Manufacture", "Mills", "Press", "Shipping", "Trading", "Works", "Yards"
)  # fmt: skip
FORMS: Final = ("ballad", "film", "fresco", "novel", "play", "poem", "sonata", "tapestry", "waltz")
COLOURS: Final = (
    "Amber", "Ashen", "Autumn", "Bitter", "Broken", "Copper", "Crimson", "Distant", "Drowned", "Empty", "Frozen",
    "Gilded", "Hidden", "Hollow", "Iron", "Ivory", "Last", "Lost", "Midnight", "Northern", "Pale", "Patient", "Quiet",
    "Restless", "Salted", "Scarlet", "Silent", "Sleeping", "Velvet", "Winter",
)  # fmt: skip


class Namer:
    """Makes names of which no two are alike, upper and lower case aside."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._taken: set[str] = set()

    def root(self, syllables: int = 2) -> str:
        """An invented word that may come again."""
        dice = self._dice
        first = dice.choice(_ONSETS) + dice.choice(_VOWELS)
        middle = "".join(dice.choice(_MIDDLES) + dice.choice(_VOWELS) for _ in range(syllables - 2))
        last = dice.choice(_MIDDLES) + dice.choice(_ENDINGS) if syllables > 1 else dice.choice("lmnrsvz")
        return (first + middle + last).capitalize()

    def new(self, *forms: str, roots: tuple[str, ...] = ()) -> str:
        """A name of one of the forms, with a root for its "{}": in half of the cases one of `roots`."""
        for attempt in range(_LONGEST_SEARCH):
            root = (
                self._dice.choice(roots)
                if roots and self._dice.chance(0.5)
                else self.root(2 + attempt // 100)
            )
            name = self._dice.choice(forms).format(root)
            if name.lower() not in self._taken:
                self._taken.add(name.lower())
                return name
        raise RuntimeError("no new names are left: the world is too large")
