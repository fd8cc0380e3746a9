"""Names and articles that the shop's worlds are made of."""

from __future__ import annotations

from typing import Final

FIRST_NAMES: Final = (
    "Ada", "Ben", "Clara", "David", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kira", "Liam", "Mina",
    "Noah", "Olga", "Pavel", "Rosa", "Samir", "Tessa", "Viktor", "Wanda", "Yusuf",
)  # fmt: skip
LAST_NAMES: Final = (
    "Abbot", "Berger", "Costa", "Dalton", "Eriksen", "Fischer", "Garcia", "Hansen", "Ivanov", "Jensen",
    "Keller", "Lindqvist", "Moreau", "Novak", "Okafor", "Petrov", "Quinn", "Rossi", "Silva", "Tanaka", "Varga",
    "Weiss",
)  # fmt: skip
MAIL_HOSTS: Final = ("example.com", "example.org", "mail.example", "post.example")
STREETS: Final = (
    "Oak Street", "Mill Lane", "Station Road", "Harbour Way", "Church Hill", "Garden Row", "Linden Avenue",
    "Bridge Street", "Market Square", "School Road", "Park View", "River Walk",
)  # fmt: skip
CITIES: Final = (
    "Ashford", "Brookfield", "Clearwater", "Dunmore", "Eastham", "Fairview", "Glenwood", "Hillcrest",
    "Kingsport", "Lakeside", "Northgate", "Redhill",
)  # fmt: skip
COLOURS: Final = ("black", "white", "blue", "green", "red")
SIZES: Final = ("small", "medium", "large")
MATERIALS: Final = ("oak", "walnut", "pine", "steel")
_PRODUCTS: Final[tuple[tuple[str, str, tuple[str, ...], int, int], ...]] = (
    ("wireless headphones", "electronics", COLOURS, 40, 180), ("phone charger", "electronics", COLOURS, 12, 40),
    ("mechanical keyboard", "electronics", COLOURS, 50, 160), ("webcam", "electronics", COLOURS, 30, 120),
    ("bluetooth speaker", "electronics", COLOURS, 25, 150),
    ("electric toothbrush", "electronics", COLOURS, 30, 130),
    ("e-book reader", "electronics", COLOURS, 90, 220), ("smart watch", "electronics", COLOURS, 80, 300),
    ("hair dryer", "electronics", COLOURS, 25, 110), ("coffee grinder", "electronics", COLOURS, 35, 140),
    ("desk lamp", "home", COLOURS, 20, 90), ("wool blanket", "home", COLOURS, 35, 120),
    ("bookshelf", "home", MATERIALS, 60, 260), ("cutting board", "home", MATERIALS, 15, 60),
    ("bedside table", "home", MATERIALS, 50, 190), ("picture frame", "home", MATERIALS, 10, 50),
    ("teapot", "home", COLOURS, 15, 70), ("floor vase", "home", COLOURS, 20, 100),
    ("rain jacket", "clothing", SIZES, 40, 180), ("running shoes", "clothing", SIZES, 50, 160),
    ("linen shirt", "clothing", SIZES, 25, 90), ("winter gloves", "clothing", SIZES, 12, 50),
    ("hiking backpack", "sports", COLOURS, 45, 190), ("yoga mat", "sports", COLOURS, 15, 70),
    ("camping tent", "sports", COLOURS, 90, 320), ("bicycle helmet", "sports", SIZES, 30, 120),
)  # fmt: skip
"""Name, category, variants, and least and greatest price in dollars."""
PRODUCTS: Final = {name: (kind, variants, low, high) for name, kind, variants, low, high in _PRODUCTS}
"""Category, variants, least and greatest price in dollars by name."""
MADE_TO_ORDER: Final = ("bookshelf", "bedside table", "picture frame")
"""What is made after it was ordered."""
READY_MADE: Final = tuple(name for name in PRODUCTS if name not in MADE_TO_ORDER)
"""Everything else."""
