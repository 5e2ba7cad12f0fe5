"""Postcodes, cities and regions. Some postcodes serve two cities, some cities differ by one letter."""

from __future__ import annotations

from random import Random

from bench.corrections.data_set import DataSet, Document


class Addresses(DataSet):
    """postcode → city → region, dialling code ↔ city; no dates, no amounts."""

    name = "addresses"
    seed = 7_001
    decided = {"city": "postcode", "region": "city", "dialling": "city"}  # noqa: RUF012
    listed = ("city", "region")
    open = ("street", "name")

    def prepare(self, rng: Random) -> None:
        regions = ["Alderney", "Brabant", "Carinthia", "Dalarna", "Epirus", "Friesland", "Galicia", "Holstein"]
        ends = ("burg", "stadt", "heim", "dorf", "hafen", "bach", "au")
        names = sorted({self.fresh(rng, "")[:6] + rng.choice(ends) for _ in range(150)})
        names += [name[0] + rng.choice("aeiou") + name[2:] for name in names[:15]]  # Hamburg and Homburg
        self._cities = sorted(set(names))
        rng.shuffle(self._cities)
        self._region = {city: rng.choice(regions) for city in self._cities}
        self._dialling = {city: f"0{2000 + at}" for at, city in enumerate(self._cities)}
        self._places = [(f"{10_000 + 7 * at}", rng.choice(self._cities)) for at in range(600)]
        # One postcode in twelve serves a second city.
        self._places += [(code, rng.choice(self._cities)) for code, _ in self._places[::12]]
        self._weights = [1 / (1 + at % 600) ** 0.8 for at in range(len(self._places))]
        served: dict[str, set[str]] = {}
        for code, city in self._places:
            served.setdefault(code, set()).add(city)
        self._shared = {code for code, cities in served.items() if len(cities) > 1}

    def record(self, rng: Random) -> Document:
        [(postcode, city)] = rng.choices(self._places, self._weights)
        return {
            "name": f"{self.fresh(rng, '')} {self.fresh(rng, '')}",
            "street": f"{self.fresh(rng, '')}weg {rng.randint(1, 200)}",
            "postcode": postcode,
            "city": city,
            "region": self._region[city],
            "dialling": self._dialling[city],
            "since": rng.randint(1990, 2025),
        }

    def is_decided(self, truth: Document, field: str) -> bool:
        return field != "city" or truth["postcode"] not in self._shared
