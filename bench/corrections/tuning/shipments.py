"""Freight between ports: codes that differ by one letter, units, weights."""

from __future__ import annotations

from random import Random

from bench.corrections.data_set import DataSet, Document


class Shipments(DataSet):
    """port code → port, country; carrier code → carrier."""

    name = "shipments"
    seed = 202
    decided = {"port": "port_code", "country": "port_code", "carrier": "scac"}  # noqa: RUF012
    listed = ("port", "country", "carrier", "packing")
    open = ("reference", "weight_kg")
    dates = {"eta": {"agent-1": "dmy.", "agent-2": "dmy/", "agent-3": "ymd/", "agent-4": "mdy/"}}  # noqa: RUF012
    numbers = {"freight": {"agent-1": "comma", "agent-2": "spaced", "agent-3": "grouped"}}  # noqa: RUF012
    by = "agent"

    def prepare(self, rng: Random) -> None:
        countries = ["Norway", "Sweden", "Finland", "Denmark", "Estonia", "Latvia", "Poland", "Germany", "Portugal"]
        stems = [self.fresh(rng, "") for _ in range(80)]
        # Near-duplicates on purpose: two ports that differ by one letter.
        stems += [stem[:-1] + rng.choice("aeiou") for stem in stems[:12]]
        self._ports = [
            (f"{rng.choice('NSDF')}{stem[:3].upper()}{at:02d}", stem, rng.choice(countries))
            for at, stem in enumerate(stems)
        ]
        self._carriers = [(f"{self.fresh(rng, '')[:4].upper()}", f"{self.fresh(rng, '')} Lines") for _ in range(30)]
        self._weights = [1 / (1 + at) for at in range(len(self._ports))]
        rng.shuffle(self._ports)

    def record(self, rng: Random) -> Document:
        [(code, port, country)] = rng.choices(self._ports, self._weights)
        scac, carrier = rng.choice(self._carriers)
        return {
            "reference": f"{rng.randrange(10**8):08d}",
            "agent": rng.choice(("agent-1", "agent-2", "agent-3", "agent-4")),
            "port_code": code,
            "port": port,
            "country": country,
            "scac": scac,
            "carrier": carrier,
            "packing": rng.choice(("pallet", "carton", "drum", "crate", "bag")),
            "eta": f"2026-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
            "weight_kg": rng.randint(10, 30_000),
            "freight": round(rng.uniform(10, 9_000), 2),
        }
