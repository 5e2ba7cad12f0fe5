"""What stands above the table: what the figures mean."""

from __future__ import annotations

from bench.console.plan import Plan


def introduction(plan: Plan) -> str:
    return " ".join(
        [
            f"One database with {plan.cases:,} open cases in 500 groups, {plan.messages:,} messages in 20 inboxes",
            f"and {plan.events:,} events; `towpath console` is a process of its own, with default settings.",
            f"Pages: each list is asked for {plan.times} times over HTTP by an admin who is logged in, with filters",
            "and from everywhere in the list; the time is from the request to the last byte.",
            "Seen: somebody looks at the list of messages in Chromium; the time is from the commit of a message to",
            "when it stands in the page, at moments that have nothing to do with when the page looks.",
            "Open pages: ten people have five pages open each, all of them visible; each page follows the stream of",
            "news and asks for itself again, as its script does. What the process of the console uses of a core, by",
            "the kernel, while a message is sent every second.",
        ]
    )
