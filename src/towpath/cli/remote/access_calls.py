"""Users, keys and notifications."""

from __future__ import annotations

from towpath.cli.remote.call import Call, Item, Options, changing, listing, looking, only
from towpath.cli.remote.paging import paged
from towpath.cli.remote.server import Server, path_of
from towpath.cli.remote.view import print_items, sentence, table
from towpath.errors import NotDelivered

_USER = "/users/{user}"
_TARGET = only("name", "way", "to", "kinds", "delivery")


def _said(said: str) -> str:
    return f"{said} {{name}}: {{role}}"


def _add(server: Server, options: Options) -> Item:
    from towpath.cli.user import ask_password

    secret = ask_password(options["stdin"]) if options["password"] or options["stdin"] else None
    body = {"name": options["user"], "role": options["role"], "why": options["why"]}
    return dict(server.change("/users", body | ({} if secret is None else {"password": secret})))


def _password(options: Options) -> Options:
    from towpath.cli.user import ask_password

    return options | {"password": ask_password(options["stdin"])}


def _link(found: Item, options: Options) -> str:
    return f"give this to {found['user']} and to nobody else; it works once, at the console:\n  {found['path']}"


def _make_key(server: Server, options: Options) -> Item:
    from towpath.cli.topic_times import NEVER, parse_age_s

    age = None if options["age"] is None else parse_age_s(options["age"], "--age")
    ends = {} if age is None else {"is_endless": True} if age == NEVER else {"age_s": age}
    body = {"user": options["user"], "scopes": list(options["scope"] or ("read",)), "label": options["label"]}
    return dict(server.change("/keys", {**body, **ends, "why": options["why"]}))


def _print_key(found: Item, options: Options) -> None:
    import typer

    typer.echo(found["key"])
    ends = "never ends" if found["expires_at"] is None else f"ends {found['expires_at']}"
    scopes = ", ".join(found["scopes"])
    typer.echo(f"{found['prefix']} of {found['user']}: {scopes}; {ends}; it is not shown again", err=True)


def _notices(server: Server, options: Options) -> Item:
    targets = [_TARGET(each) for each in server.look("/notify/targets")["items"]]
    page = paged(server, "/notify/notices", {}, options["limit"], "before", options["before"])
    return {"targets": targets, "items": page.items, "next": page.next}


def _print_notices(found: Item, options: Options) -> None:
    print_items(found["targets"], ("target=name", "way", "to…", "told of…=kinds", "delivery…"))
    table("at", "notice=kind", "about…=subject", "times", "handed over=handed_at", "title…")(found, options)


def _try(server: Server, options: Options) -> Item:
    found = server.change(f"{path_of('/notify/targets/{target}', options)}/try", {"why": "tried by hand"})
    if not found["is_delivered"]:
        raise NotDelivered(found["reason"])
    return {"target": found["target"], "id": found["id"]}


CALLS = {
    "user list": looking(
        "/users",
        shape=only("items"),
        show=table("user=name", "role", "enabled=is_enabled", "password=has_password", "made=made_at"),
    ),
    "user add": Call(_add, sentence(_said("added"))),
    "user role": changing(f"{_USER}/role", "role", show=sentence(_said("changed"))),
    "user password": changing(f"{_USER}/password", "password", prepare=_password, show=sentence(_said("changed"))),
    "user disable": changing(f"{_USER}/disable", show=sentence(_said("disabled"))),
    "user enable": changing(f"{_USER}/enable", show=sentence(_said("enabled"))),
    "user link": changing(f"{_USER}/link", show=sentence(_link)),
    "key list": listing(
        "/keys",
        "user",
        show=table("key=prefix", "user", "label…", "scopes…", "ends=expires_at", "used=used_at", "revoked=revoked_at"),
    ),
    "key make": Call(_make_key, _print_key),
    "key revoke": changing("/keys/{key}/revoke", show=sentence("revoked {prefix} of {user}")),
    "notify list": Call(_notices, _print_notices),
    "notify try": Call(_try, sentence("{target} has taken message {id}")),
}
