"""People, their departments and sites, and what they earn."""

from __future__ import annotations

from random import Random

from bench.corrections.data_set import DataSet, Document


class Staff(DataSet):
    """cost centre → department → site; a badge number also knows the site."""

    name = "staff"
    seed = 101
    decided = {"department": "cost_centre", "site": "department", "manager": "cost_centre"}  # noqa: RUF012
    listed = ("department", "site", "grade")
    open = ("name",)
    dates = {"hired": {"uk": "dmy/", "us": "mdy/", "de": "dmy."}}  # noqa: RUF012
    numbers = {"salary": {"uk": "grouped", "us": "grouped", "de": "comma"}}  # noqa: RUF012
    by = "office"

    def prepare(self, rng: Random) -> None:
        words = ("Finance", "Legal", "Research", "Logistics", "Marketing", "Purchasing", "Facilities", "Security")
        parts = ("North", "South", "East", "West", "Central", "Export")
        self._departments = [f"{word} {part}" for word in words for part in parts]
        sites = ["Leeds", "Lyon", "Lahti", "Lugano", "Bergen", "Bremen", "Breda", "Torino", "Toulon", "Porto"]
        self._site = {each: rng.choice(sites) for each in self._departments}
        self._centres = [(f"CC{number:04d}", rng.choice(self._departments)) for number in range(400)]
        self._manager = {centre: f"{rng.choice('ABCDEFG')}. {self.fresh(rng, '')}" for centre, _ in self._centres}
        self._weights = [1 / (1 + at) ** 0.7 for at in range(len(self._centres))]

    def record(self, rng: Random) -> Document:
        [(centre, department)] = rng.choices(self._centres, self._weights)
        day = f"{rng.randint(2015, 2025)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        return {
            "id": rng.randrange(10**9),
            "name": f"{self.fresh(rng, '')} {self.fresh(rng, '')}",
            "office": rng.choice(("uk", "us", "de")),
            "cost_centre": centre,
            "department": department,
            "site": self._site[department],
            "manager": self._manager[centre],
            "grade": rng.choice(("Junior", "Regular", "Senior", "Principal", "Director")),
            "hired": day,
            "salary": round(rng.uniform(20_000, 180_000), 2),
        }
