"""`towpath --remote`: every command that a server can run says the same as where the database is."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar
from urllib.request import Request, urlopen

import pytest
from tests.support.cli import CommandLine, Ran
from tests.support.console_server import console_server
from tests.support.console_world import console_runtime
from tests.support.http import make_key
from tests.support.http_server import serving
from tests.support.receivers import certificates
from tests.support.twins import WHO, Twins, alike, blurred, twins
from typer.main import get_command

from towpath import cli
from towpath.cli.remote import call as view
from towpath.cli.remote.call import Options, RemoteCall, part_of
from towpath.cli.remote.run import CALLS
from towpath.cli.remote.server import RemoteServer

WHY = "--why 'a test'"
COMMANDS = get_command(cli.app)

# Words behind each command. `!`: both refuse it, with the same words.
CASES: dict[str, tuple[str, ...]] = {
    "queue inboxes": ("",),
    "queue list": ("", "--state err", "--inbox greeter --limit 2", "--limit 2 --before 5", "! --state nonsense"),
    "queue show": ("{message0}", "! {case0}"),
    "queue send": (
        f'greeter greet \'{{{{"a": 1.50, "b": 12345678901234567890}}}}\' {WHY} --header a=b --delay 60 --ttl 600',
        f"greeter greet {WHY} --reply",
        f"! nowhere greet {WHY}",
    ),
    "queue reply": (f"{{message0}} 7 {WHY}",),
    "queue edit": (
        f"{{message1}} --payload '[1, 2.50]' {WHY}",
        f"{{message2}} --header x=y {WHY}",
        f"! none --payload 1 {WHY}",
    ),
    "queue set-state": (f"{{message3}} dead {WHY}", f"! {{message4}} ack {WHY}"),
    "queue reap": (WHY,),
    "queue clean": (WHY,),
    "event list": ("--kind message_sent_by_hand --limit 3", "--subject {message3}"),
    "process list": ("",),
    "process show": ("far", "! nobody"),
    "process stop": (f"far {WHY}", f"! far nobody {WHY}"),
    "process restart": (f"away {WHY}",),
    "process deaths": ("", "far --last 1", "! nobody"),
    "process logs": ("! far",),
    "status": ("",),
    "actor list": ("", "--instances", "sleeper", "--phase failed", "--instances --limit 2", "! nobody"),
    "actor show": ("counter", "sleeper:long", "asker", "! sleeper:nobody", "! nobody"),
    "actor graph": ("counter", "! nobody"),
    "actor template": ("counter", "sleeper --state Awake", "! counter --state Nothing"),
    "actor start": (
        f"counter:new --payload '{{{{\"upto\": 3}}}}' {WHY}",
        f"doer --again {WHY}",
        f"! counter --state Nothing {WHY}",
        f"! counter --again --state Count {WHY}",
    ),
    "actor abort": (f"sleeper:one {WHY}", f"! sleeper:nobody {WHY}"),
    "actor wake": (f"sleeper:two {WHY}", f"! counter {WHY}"),
    "actor enable": (f"asker {WHY}",),
    "actor disable": (f"parent {WHY}", f"! nobody {WHY}"),
    "actor schedule list": ("", "--actor counter"),
    "actor schedule show": ("hourly", "! nothing"),
    "actor schedule add": (
        f"nightly counter --daily 03:30 --zone Europe/Berlin --payload '{{{{\"upto\": 2}}}}' {WHY}",
        f"often counter:often --every 15m --payload '{{{{\"upto\": 2}}}}' --disabled {WHY}",
        f"! never counter {WHY}",
    ),
    "actor schedule change": (f"changed --window 22-6 {WHY}", f"! changed {WHY}"),
    "actor schedule enable": (f"switched {WHY}",),
    "actor schedule disable": (f"switched {WHY}",),
    "actor schedule remove": (f"removed {WHY}", f"! nothing {WHY}"),
    "flow list": ("",),
    "flow show": ("prices", "! nothing"),
    "flow state": ("prices", "! nothing", "! prices nothing"),
    "flow batches": ("prices", "prices --limit 1", "prices --before 1/1", "! nothing"),
    "flow pause": (f"prices {WHY}", f"! nothing {WHY}"),
    "flow resume": (f"prices {WHY}",),
    "flow stop": (f"! prices {WHY}",),
    "flow reset": (f"prices --yes {WHY}", f"! prices {WHY}"),
    "audit": ("! prices", "! nothing"),
    "trace": (
        "--flow prices offers/0/3",
        "--flow prices offers --key k",
        "! --flow prices",
        "! --flow nothing offers/0/3",
    ),
    "topic list": ("",),
    "topic show": ("offers", "! nothing"),
    "topic read": ("offers", "offers/0/3", "offers --from 5 --to 8", "offers --limit 3 --key k", "! offers/0/999"),
    "desk list": (
        "",
        "--settled",
        "--limit 2",
        "--state open --flow shop --code 2",
        "--since 1h",
        "! --state nonsense",
    ),
    "desk show": ("{case1}", "! 99999"),
    "desk note": ("{case1} 'I look at it'",),
    "desk edit": (
        f'{{case2}} --value \'{{{{"id": 2, "city": "Ulm"}}}}\' {WHY}',
        f"{{case3}} --set 'city=\"Ulm\"' --replay {WHY}",
        f"{{case2}} --original {WHY}",
        f"! {{case2}} {WHY}",
        f"! {{case2}} --value 'no json' {WHY}",
    ),
    "desk agree": (f"{{case20}} 1 {WHY}",),
    "desk refuse": (f"{{case21}} 1 {WHY}",),
    "desk export": ("--flow shop", "--format csv", "! --format xml"),
    "desk replay": (
        f"{{case4}} {{case5}} {WHY}",
        f"{{case6}} --delay 15m {WHY}",
        f"--all --flow nothing --yes {WHY}",
        f"--all --group {{many}} --dry-run --name tonight --rate 5 {WHY}",
        f"! --group {{many}} {WHY}",
        f"! --all --group {{many}} {WHY}",
        f"! 99999 {WHY}",
    ),
    "desk resend": (f"{{case7}} {WHY}",),
    "desk abandon": (f"{{case8}} --yes {WHY}", f"! {{case9}} {WHY}"),
    "desk open": (f"{{ignored}} {WHY}", f"! {{case10}} {WHY}"),
    "desk assign": (f"{{case10}} --to ann {WHY}", f"{{case10}} {WHY}"),
    "desk recall": (f"{{case12}} {WHY}",),
    "desk correct apply": (f"{{wrong0}} --keep {WHY}",),
    "desk groups": ("", "--limit 1", "--state archived", "! --state nonsense"),
    "desk group show": ("{many}", "! 99999"),
    "desk group assign": (f"{{group0}} --to ann {WHY}", f"{{group0}} {WHY}"),
    "desk group note": ("{many} 'since Monday'",),
    "desk group ongoing": (f"{{group1}} {WHY}",),
    "desk group resolve": (f"{{group2}} {WHY}",),
    "desk group archive": (
        f"{{group3}} --more 100 {WHY}",
        f"{{group4}} --rate 100/1h {WHY}",
        f"{{group5}} --until 2999-01-01 {WHY}",
        f"! {{group5}} --until 2999-01-01 --more 1 {WHY}",
    ),
    "desk group split": (f"{{many}} --case {{case11}} --title apart {WHY}", f"! {{many}} {WHY}"),
    "desk group merge": (f"{{group6}} {{many}} {WHY}",),
    "desk group unmerge": (f"! {{group7}} {WHY}",),
    "desk job list": ("", "--state paused", "--limit 1", "! --state nonsense"),
    "desk job show": ("{job0}", "! 99999"),
    "desk job items": ("{job0}", "! {job0} --state nonsense"),
    "desk job begin": (f"{{job0}} {WHY}", f"! 99999 {WHY}"),
    "desk job pause": (f"{{job1}} {WHY}",),
    "desk job resume": (f"{{job2}} {WHY}",),
    "desk job abort": (f"{{job3}} {WHY}",),
    "desk correct rules": ("", "--state on", "! --state nonsense"),
    "desk correct show": ("{rule} --limit 5", "! 99999"),
    "desk correct suggest": ("{wrong1}",),
    "desk correct report": ("shop",),
    "desk correct off": (f"{{rule}} {WHY}",),
    "desk correct on": (f"{{rule}} --support 7 --confidence 0.9 {WHY}",),
    "desk correct revert": (f"{{on}} {WHY}",),
    "desk policy list": ("", "--flow shop"),
    "desk policy show": ("shop", "! nothing"),
    "desk policy set": (f'shop --rule \'{{{{"policy": "isolate", "step": "x"}}}}\' --add {WHY}',),
    "desk policy try": ("shop", 'shop --rule \'{{"policy": "isolate"}}\' --most 5'),
    "desk policy withdraw": (f"shop 0 {WHY}", f"shop 0 --open {WHY}"),
    "lane list": ("", "--flow shop"),
    "lane show": ("shop/0", "! shop", "! shop/99"),
    "lane pause": (f"shop/0 {WHY}", f"shop/0 {WHY}"),
    "lane resume": (f"shop/0 {WHY}",),
    "lane hurry": (f"shop/0 {WHY}",),
    "lane empty": (f"shop/0 --yes {WHY}", f"! shop/0 {WHY}"),
    "data-set list": ("", "--kind crawl", "--state ready --limit 1", "! --state nonsense"),
    "data-set show": ("{data_set}", "! none"),
    "data-set delete": (f"{{data_set}} --yes {WHY}", f"! none --yes {WHY}"),
    "block list": ("", "--state active"),
    "block show": ("1", "! 99999"),
    "block add": (
        f"refuse --topic orders --prefix bot --until 2999-01-31 {WHY}",
        f"! nonsense --topic a --until 2999-01-31 {WHY}",
    ),
    "block withdraw": (f"1 {WHY}",),
    "complaint list": ("", "--state settled"),
    "complaint show": ("1",),
    "complaint add": ("views doc-9 --text 'too dear' --contact me@example.org",),
    "complaint act": (f"1 take {WHY}", f"1 dismiss --reply 'it is right' {WHY}", f"! 1 block {WHY}"),
    "maintenance list": ("",),
    "maintenance run": (f"! nothing {WHY}", f"complaints {WHY}"),
    "upload list": ("", "--stream trips --limit 1", "--owner ada", "! --state nonsense"),
    "upload show": ("{upload}", "! none"),
    "upload abort": (f"{{ended}} --yes {WHY}", f"! {{upload}} {WHY}"),
    "upload retry": (f"! {{upload}} {WHY}", f"! none {WHY}"),
    "user list": ("",),
    "user add": (f"dora --role operator {WHY}", f"! carol {WHY}"),
    "user role": (f"carol viewer {WHY}", f"! nobody viewer {WHY}"),
    "user password": (f"! carol {WHY}",),
    "user disable": (f"carol {WHY}",),
    "user enable": (f"carol {WHY}",),
    "user link": (f"carol {WHY}",),
    "key list": ("", "--user carol", "--limit 1"),
    "key make": (f"admin --scope read --label cron --age 30d {WHY}", f"! nobody {WHY}"),
    "key revoke": (f"{{key}} {WHY}", f"! tp_none {WHY}"),
    "notify list": ("",),
    "notify try": ("ops", "! nobody"),
}


# One takes away what another one needs.
TOGETHER = [("desk correct apply", "desk correct revert"), ("desk recall", "lane hurry", "lane empty")]
IN_ORDER = {name for names in TOGETHER for name in names}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with twins(tmp_path_factory.mktemp("remote")) as made:
        yield made


@pytest.fixture
def remote(pair: Twins, command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.setenv("TOWPATH_KEY", pair.key)
    return command


def options_of(name: str) -> set[str]:
    found: Any = COMMANDS
    for word in name.split():
        found = found.commands[word]
    return {each.name for each in found.params}


def test_every_command_that_a_server_can_run_has_a_case() -> None:
    assert sorted(CASES) == sorted(CALLS)


@pytest.mark.parametrize("names", [*((each,) for each in CASES if each not in IN_ORDER), *TOGETHER], ids=", ".join)
def test_a_server_says_what_is_said_here(
    names: tuple[str, ...], pair: Twins, remote: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--json`; and what people see of it has all that it is to show."""
    monkeypatch.setattr(view, "part_of", part_that_is_there)
    for name in names:
        recorded = Recorded(CALLS[name])
        monkeypatch.setitem(CALLS, name, replace(CALLS[name], ask=recorded.ask))
        for words in CASES[name]:
            check_same(name, words, options_of(name), pair, remote)
            recorded.show()


class Recorded:
    """A call whose last answer is shown to people, too."""

    def __init__(self, call: RemoteCall) -> None:
        self._call = call
        self._last: tuple[Any, Options] | None = None

    def ask(self, server: RemoteServer, options: Options) -> Any:
        found = self._call.ask(server, options)
        self._last = (found, options)
        return found

    def show(self) -> None:
        if self._last is not None and self._call.write is None:  # what is written one by one is gone
            self._call.show(*self._last)
        self._last = None


def part_that_is_there(item: Any, name: str) -> Any:
    assert name.partition(".")[0] in item, f"{name} is none of {list(item)}"
    return part_of(item, name)


def check_same(name: str, words: str, options: set[str], pair: Twins, remote: CommandLine) -> None:
    is_refused = words.startswith("!")
    typed = [*name.split(), *shlex.split(words.removeprefix("!").format(**pair.names))]
    typed += ["--json"] if "as_json" in options else []
    here = remote("--config", pair.config, *typed, *(["--who", WHO] if "who" in options else []))
    there = remote("--remote", pair.url, *typed)
    assert (here.code != 0) == is_refused, here
    assert (there.code, blurred(there.err)) == (here.code, blurred(here.err))
    assert alike(read(here), read(there)), f"\nhere:  {here.out}\nthere: {there.out}"


def read(ran: Ran) -> Any:
    try:
        return [json.loads(line) for line in ran.lines]
    except json.JSONDecodeError:
        return ran.out


def test_a_table_has_the_columns_that_matter(pair: Twins, remote: CommandLine) -> None:
    ran = remote.ok("--remote", pair.url, "queue", "list", "--state", "ERR")
    assert ran.lines[0].split() == ["id", "inbox", "function", "state", "tries", "sent", "owner", "reason"]
    assert "nobody is at home" in ran.out
    assert "--before " in remote.ok("--remote", pair.url, "queue", "list", "--limit", 1).out


@pytest.mark.parametrize("words", ["queue list --limit 5", "topic list", "queue inboxes", "desk groups --limit 3"])
def test_a_list_that_is_longer_than_one_answer(
    words: str, pair: Twins, remote: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.cli.remote.server.MOST_AT_ONCE", 2)
    here = remote.ok("--config", pair.config, *words.split(), "--json")
    assert alike(here.json, remote.ok("--remote", pair.url, *words.split(), "--json").json)


# What goes wrong


def test_what_no_server_can_do_is_told_at_once(command: CommandLine) -> None:
    ran = command("--remote", "http://127.0.0.1:1", "queue", "tail")
    ran.refused(2, "`queue tail`", "queue inboxes, list, show", "towpath queue tail --help")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("queue", "send", "greeter", "greet", "--why", "x", "--who", "ann"), "--who"),
        (("queue", "send", "greeter", "greet", "--why", "x", "--wait", "1"), "--wait"),
        (("desk", "list", "--masked"), "--masked"),
        (("topic", "list", "--log", "x"), "--log"),
        (("queue", "list", "--remote", "x"), "--remote"),
    ],
)
def test_an_option_that_only_counts_here_is_refused(
    words: tuple[str, ...], said: str, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_KEY", "tp_any")
    command("--remote", "http://127.0.0.1:1", *words).refused(2, said)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--remote", "nonsense"), 2, "address"),
        (("--remote", "http://example.org"), 2, "the key"),
        (("--remote", "http://127.0.0.1:1", "--database", "sqlite:///x.db"), 2, "one of them"),
        (("--remote", "https://127.0.0.1:1", "--ca-file", "none.pem"), 2, "none.pem"),
        (("--remote", "http://127.0.0.1:1", "--key-file", "none.key"), 3, "none.key"),
        (("--remote", "http://127.0.0.1:1"), 3, "http://127.0.0.1:1"),
    ],
)
def test_a_server_that_cannot_be_asked(
    words: tuple[str, ...], code: int, said: str, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_KEY", "tp_any")
    command(*words, "queue", "list").refused(code, said)


def test_without_a_key(pair: Twins, command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOWPATH_KEY", raising=False)
    command("--remote", pair.url, "queue", "list").refused(3, "TOWPATH_KEY", "--key-file")


def test_a_wrong_key(pair: Twins, command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_KEY", "tp_wrong")
    ran = command("--remote", pair.url, "queue", "list")
    ran.refused(1, pair.url, "TOWPATH_KEY", "--key-file")
    assert "tp_wrong" not in ran.err


def test_a_key_that_may_not(pair: Twins, command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_KEY", pair.looker)
    command.ok("--remote", pair.url, "queue", "list")
    ran = command("--remote", pair.url, "queue", "reap", "--why", "a test")
    ran.refused(1, "queue:write", "towpath key make")


def test_the_variables_are_enough(pair: Twins, remote: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_REMOTE", pair.url)
    shown = remote.ok("user", "list", "--json").json
    assert "carol" in {each["name"] for each in shown["items"]}
    remote("stack", "status").refused(2, "TOWPATH_REMOTE")
    remote("send", "trips", "none.csv").refused(1, "none.csv")  # talks to a server anyway


def test_the_key_may_be_in_a_file(
    pair: Twins, command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TOWPATH_KEY", raising=False)
    file = tmp_path / "key"
    file.write_text(pair.key, encoding="utf-8")
    command.ok("--remote", pair.url, "--key-file", file, "queue", "inboxes")


# Servers that are not as they should be


class Stranger(BaseHTTPRequestHandler):
    """Knows nothing of Towpath."""

    def do_GET(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def test_what_is_no_server_of_ours(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_KEY", "tp_any")
    with serving(Stranger) as url:
        command("--remote", url, "queue", "list").refused(1, url, "404")


def test_a_server_is_recognised_by_its_certificate(
    tmp_path: Path, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_KEY", "tp_any")
    shown = certificates(tmp_path)
    with serving(Stranger, shown.server) as url:
        command("--remote", url, "queue", "list").refused(1, "--ca-file")
        command("--remote", url, "--ca-file", shown.ca_file, "queue", "list").refused(1, "Towpath")
    with serving(Stranger) as url:
        ran = command("--remote", url.replace("http:", "https:"), "queue", "list")
        ran.refused(3, "TLS")


class Cutting(BaseHTTPRequestHandler):
    """Passes requests on to a server, and cuts the answer to the first one off."""

    behind = ""
    asked: ClassVar[list[tuple[str, str | None]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name: value for name, value in self.headers.items() if name != "Host"}
        with urlopen(Request(f"{self.behind}{self.path}", body, headers)) as answer:  # noqa: S310 - our own
            said = answer.read()
        self.asked.append((self.path, self.headers["Idempotency-Key"]))
        if len(self.asked) == 1:
            self.close_connection = True
            return
        self.send_response(201)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_change_whose_answer_was_lost_is_made_once(
    tmp_path: Path, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.cli.remote.server.WAITS_S", (0.01, 0.01))
    with console_runtime(tmp_path) as runtime, console_server(runtime) as server:
        runtime.queue.inbox("greeter")
        monkeypatch.setenv("TOWPATH_KEY", make_key(runtime))
        Cutting.behind = server.address
        Cutting.asked.clear()
        with serving(Cutting) as url:
            ran = command.ok("--remote", url, "queue", "send", "greeter", "greet", "--why", "a test", "--json")
        sent = runtime.queue.browser().page(limit=10, inbox="greeter")
    assert [message.id for message in sent] == [ran.json["id"]]
    assert len(Cutting.asked) == 2
    assert len(set(Cutting.asked)) == 1
    assert "asking again" in ran.err


def test_a_change_of_which_the_server_knows_only_that_it_was_made(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWPATH_KEY", "tp_any")

    class Forgetful(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = b'{"cases": [], "refused": null}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    with serving(Forgetful) as url:
        ran = command("--remote", url, "desk", "replay", "1", "--why", "a test")
    ran.refused(3, "was made")


def test_a_server_that_goes_away_in_between(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the change was made is not known, and that is said."""
    monkeypatch.setattr("towpath.cli.remote.server.WAITS_S", (0.01,))
    monkeypatch.setenv("TOWPATH_KEY", "tp_any")

    class Silent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.close_connection = True

    with serving(Silent) as url:
        ran = command("--remote", url, "queue", "reap", "--why", "a test")
    assert ran.code == 3
    assert "before you try again" in ran.err
