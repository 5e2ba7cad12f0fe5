"""Invoices from senders that write dates and amounts each in their own way, with times and currencies."""

from __future__ import annotations

from random import Random

from bench.corrections.data_set import DataSet, Document


class Invoices(DataSet):
    """customer number → customer, country; country → currency; country → order of day and month, mark of decimals."""

    name = "invoices"
    seed = 7_003
    decided = {"customer": "customer_no", "country": "customer_no", "currency": "country"}  # noqa: RUF012
    listed = ("country", "currency", "status")
    open = ("invoice_no", "text")
    dates = {  # noqa: RUF012
        "issued": {"Germany": "dmy.", "France": "dmy/", "America": "mdy/", "Britain": "dmy/", "Sweden": "named"},
        "received": {"Germany": "dmy.", "France": "dmy/", "America": "mdy/", "Britain": "dmy/", "Sweden": "ymd/"},
    }
    numbers = {  # noqa: RUF012
        "net": {"Germany": "comma", "France": "spaced", "America": "grouped", "Britain": "grouped", "Sweden": "spaced"},
        "tax": {"Germany": "bare comma", "France": "bare comma", "America": "grouped", "Britain": "grouped"},
    }
    by = "country"

    def prepare(self, rng: Random) -> None:
        countries = ["Germany", "France", "America", "Britain", "Sweden"]
        self._currency = {"Germany": "EUR", "France": "EUR", "America": "USD", "Britain": "GBP", "Sweden": "SEK"}
        self._customers = [
            (
                f"C{500_000 + 13 * at}",
                f"{self.fresh(rng, '')} {rng.choice(('Ltd', 'GmbH', 'SA', 'AB'))}",
                rng.choice(countries),
            )
            for at in range(700)
        ]
        self._weights = [1 / (1 + at) ** 0.7 for at in range(len(self._customers))]

    def record(self, rng: Random) -> Document:
        [(number, customer, country)] = rng.choices(self._customers, self._weights)
        day = f"{rng.randint(2024, 2026)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        net = round(rng.uniform(5, 50_000), 2)
        return {
            "invoice_no": f"{rng.randrange(10**10):010d}",
            "customer_no": number,
            "customer": customer,
            "country": country,
            "currency": self._currency[country],
            "status": rng.choice(("open", "paid", "overdue", "cancelled")),
            "issued": day,
            "received": f"{day}T{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:00Z",
            "net": net,
            "tax": round(net * 0.19, 2),
            "text": self.fresh(rng, "") + " " + self.fresh(rng, ""),
        }
