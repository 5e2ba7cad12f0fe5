"""`towpath block`, `towpath complaint` and `towpath maintenance`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.cli import CommandLine

from towpath.catalog.complaints.store import NewComplaint
from towpath.log import NewRecord
from towpath.runtime import Runtime

BY = ("--why", "a good reason", "--who", "ann")
UNTIL = ("--until", "2100-01-31")


@pytest.fixture(autouse=True)
def own_cache(variables: dict[str, str], runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TOWPATH_LOG__URL", f"sqlite:///{tmp_path}/topics.db")
    monkeypatch.setattr("towpath.admin.cleanup.shared_directory", lambda: tmp_path / "shared")


# Block rules


def test_a_rule_is_made_listed_shown_and_withdrawn(command: CommandLine) -> None:
    made = command.ok("block", "add", "ignore", "--topic", "orders", "--prefix", "bot-", *UNTIL, *BY)
    assert "2100-02-01" in made.out
    head, line = command.ok("block", "list").lines
    assert head.split()[:3] == ["rule", "state", "does"]
    assert line.split()[:3] == ["1", "active", "ignore"]
    shown = command.ok("block", "show", 1, "--json").json
    assert (shown["match"], shown["approved_by"], shown["caught"]) == ({"topic": "orders", "prefix": "bot-"}, "ann", 0)
    assert "a good reason" in command.ok("block", "show", 1).out
    command.ok("block", "withdraw", 1, *BY)
    assert command.ok("block", "list", "--state", "active", "--json").json == {"items": [], "next": None}
    command("block", "withdraw", 1, *BY).refused(1, "withdrawn")
    command("block", "show", 7).refused(1, "7")


def test_pages(command: CommandLine) -> None:
    for number in range(3):
        command.ok("block", "add", "refuse", "--key", number, *UNTIL, *BY, "--approved-by", "Bea")
    first = command.ok("block", "list", "--limit", 2, "--json").json
    second = command.ok("block", "list", "--limit", 2, "--before", first["next"], "--json").json
    assert [each["number"] for each in (*first["items"], *second["items"])] == [3, 2, 1]
    assert {each["approved_by"] for each in first["items"]} == {"Bea"}


def test_what_is_no_rule(command: CommandLine) -> None:
    command("block", "add", "burn", "--key", "k", *UNTIL, *BY).refused(1, "refuse or ignore")
    command("block", "add", "ignore", *UNTIL, *BY).refused(1, "which records")
    command("block", "add", "ignore", "--key", "k", "--until", "soon", *BY).refused(1, "until=")
    command("block", "add", "ignore", "--where", "value.n >", *UNTIL, *BY).refused(1, "value.n >")
    command("block", "list", "--state", "odd").refused(1, "a rule is active, ended, withdrawn")
    assert command("block", "add", "ignore", "--key", "k", *BY).code == 2


# Complaints


def test_a_complaint_is_settled_by_its_record(command: CommandLine, runtime: Runtime, tmp_path: Path) -> None:
    command.ok("topic", "create", "orders", "--partitions", 1, *BY)
    command.ok("complaint", "add", "orders", "order-7", "--text", "not mine", "--who", "ann")
    command("complaint", "act", 1, "re-run", *BY).refused(1, "complaint act 1 link")
    command("complaint", "act", 1, "link", *BY).refused(2, "--record TOPIC/PARTITION/OFFSET")
    command("complaint", "act", 1, "link", "--record", "orders/0/0", *BY).refused(1)
    import towpath

    with towpath.connect(log={"url": f"sqlite:///{tmp_path}/topics.db"}) as own:
        own.log.append("orders", [NewRecord(b"{}", b"ann")])
    linked = command.ok("complaint", "act", 1, "link", "--record", "orders/0/0", *BY)
    assert "orders/0/0" in linked.out
    command("complaint", "act", 1, "block", *BY).refused(2, "--until")
    done = command.ok("complaint", "act", 1, "block", "--refuse", *UNTIL, *BY)
    assert "block rule 1" in done.out
    assert command.ok("block", "show", 1, "--json").json["match"] == {"topic": "orders", "key": "ann"}
    command("complaint", "act", 1, "take", *BY).refused(1, "settled")


def test_complaints_are_listed_and_shown(command: CommandLine, runtime: Runtime) -> None:
    for text in ("first", "second"):
        runtime.complaints.make(NewComplaint("orders", "7", text))
    command.ok("complaint", "act", 2, "take", *BY)
    command("complaint", "act", 2, "dismiss", *BY).refused(1, "reply")
    command.ok("complaint", "act", 2, "dismiss", "--reply", "no", *BY)
    _, second, first = command.ok("complaint", "list").lines
    assert (second.split()[:3], first.split()[:2]) == (["2", "settled", "dismissed"], ["1", "new"])
    shown = command.ok("complaint", "show", 2)
    assert "a reader" in shown.out
    assert command.ok("complaint", "show", 2, "--json").json["others"] == [1]
    assert [each["number"] for each in command.ok("complaint", "list", "--state", "new", "--json").json["items"]] == [1]
    command("complaint", "show", 9).refused(1, "complaint 9")


# Maintenance


def test_things_are_measured_and_cleaned(command: CommandLine, runtime: Runtime) -> None:
    items = command.ok("maintenance", "list", "--json").json["items"]
    assert {"queue", "database", "log", "fetched-files"} <= {each["name"] for each in items}
    ran = command.ok("maintenance", "run", "queue", *BY)
    assert ran.out.startswith("queue: ")
    done = command.ok("maintenance", "run", "fetched-files", *BY, "--json").json
    assert (done["name"], done["who"], done["done"]) == ("fetched-files", "ann", {"removed": 0})
    runtime.database.shift_clock(2.5 * 3600)
    [line] = [line for line in command.ok("maintenance", "list").lines if line.startswith("fetched-files")]
    assert line.split()[1:5] == ["0", "B", "2h", "ann"]
    command("maintenance", "run", "moon", *BY).refused(1, "'moon'")
