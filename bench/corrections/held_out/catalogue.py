"""Products: article numbers that differ by one digit, brands that differ by one letter, units, prices as texts."""

from __future__ import annotations

from random import Random

from bench.corrections.data_set import DataSet, Document

_UNITS = {"Tools": "piece", "Paint": "litre", "Cable": "metre", "Screws": "box", "Timber": "metre", "Glue": "litre"}


class Catalogue(DataSet):
    """article → category, brand; category → unit; brand → maker's country."""

    name = "catalogue"
    seed = 7_002
    decided = {"category": "article", "brand": "article", "unit": "category", "origin": "brand"}  # noqa: RUF012
    listed = ("category", "brand", "unit", "colour")
    open = ("stock", "note")
    dates = {"added": {"web": "ymd/", "shop": "dmy.", "import": "tight"}}  # noqa: RUF012
    numbers = {"price": {"web": "grouped", "shop": "comma", "import": "bare comma"}}  # noqa: RUF012
    by = "channel"

    def prepare(self, rng: Random) -> None:
        countries = ["Austria", "Belgium", "Czechia", "Denmark", "Hungary", "Iceland", "Ireland", "Italy"]
        brands = [self.fresh(rng, "") for _ in range(60)]
        brands += [brand[:3] + rng.choice("aeiou") + brand[4:] for brand in brands[:10]]  # imitations
        self._origin = {brand: rng.choice(countries) for brand in brands}
        kinds = list(_UNITS)
        self._articles = [
            (f"A-{10_000 + at}", rng.choice(kinds), rng.choice(sorted(self._origin))) for at in range(900)
        ]
        self._weights = [1 / (1 + at) ** 0.6 for at in range(len(self._articles))]

    def record(self, rng: Random) -> Document:
        [(article, category, brand)] = rng.choices(self._articles, self._weights)
        return {
            "channel": rng.choice(("web", "shop", "import")),
            "article": article,
            "category": category,
            "brand": brand,
            "origin": self._origin[brand],
            "unit": _UNITS[category],
            "colour": rng.choice(("black", "white", "graphite", "anthracite", "natural", "terracotta")),
            "price": f"{rng.uniform(0.5, 4_000):.2f}",
            "stock": rng.randint(0, 500),
            "added": f"{rng.randint(2019, 2026)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
            "note": self.fresh(rng, "") + " " + self.fresh(rng, ""),
        }
