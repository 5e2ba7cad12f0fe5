"""Finding actors in modules and files; what is wrong is told in one sentence, with the user's line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.user_files import Write

from towpath.actors.registry import discover
from towpath.errors import BadActor

HEAD = "from towpath.actors import Actor, End, Failed, Turn, state\n@state\nclass Start:\n    n: int = 0\n"


def actor(name: str, doc: str = '"""Does it."""', body: str = "") -> str:
    code = "def transition(self, state: Start, turn: Turn):\n        return End()"
    return f"class {name}(Actor):\n    {doc}\n    {body}\n    {code}\n"


pytestmark = pytest.mark.usefixtures("imports_as_before")


@pytest.mark.parametrize("place", ["found_mod", "found_mod.py", "./found_mod.py"])
def test_all_actors_of_a_module_in_the_order_of_its_code(place: str, write: Write, tmp_path: Path) -> None:
    write("found_mod.py", HEAD + actor("Zebra") + actor("AntEater") + "again = Zebra\nnumber = 7\n")
    found = discover([place], tmp_path)
    assert list(found) == ["zebra", "ant-eater"]
    assert [each.place for each in found.values()] == [place] * 2


def test_the_directory_comes_first_wherever_one_works(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("home/first_mod.py", HEAD + actor("Right"))
    write("work/first_mod.py", HEAD + actor("Wrong"))
    monkeypatch.chdir(tmp_path / "work")
    assert list(discover(["first_mod"], tmp_path / "home")) == ["right"]


def test_what_is_imported_or_abstract_is_not_of_the_module(write: Write, tmp_path: Path) -> None:
    write("base_mod.py", HEAD + actor("Base") + "class Half(Actor):\n    'Half.'\n")
    write("own_mod.py", f"from base_mod import Base, Half\n{HEAD}" + actor("Own"))
    assert list(discover(["own_mod"], tmp_path)) == ["own"]
    assert list(discover(["own_mod", "base_mod"], tmp_path)) == ["own", "base"]


def test_a_package_has_the_actors_of_its_parts(write: Write, tmp_path: Path) -> None:
    write("pack_mod/__init__.py", "from .inner import Inner\n")
    write("pack_mod/inner.py", HEAD + actor("Inner"))
    assert list(discover(["pack_mod"], tmp_path)) == ["inner"]
    assert list(discover(["pack_mod/inner.py", "pack_mod"], tmp_path)) == ["inner"], "one class, found twice"


def test_a_file_whose_name_cannot_be_imported(write: Write, tmp_path: Path) -> None:
    write("odd/with-hyphen.py", HEAD + actor("Odd"))
    write("odd/json.py", HEAD + actor("Json"))
    assert list(discover(["odd/with-hyphen.py", "odd/json.py"], tmp_path)) == ["odd", "json"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no module 'bad_mod' in "),
        ("", "bad_mod has no actor; write a class that derives from towpath.actors.Actor"),
        ("import json\n1 / 0\n", "bad_mod.py, line 2: ZeroDivisionError: division by zero (1 / 0)"),
        ("import nowhere_at_all\n", "bad_mod.py, line 1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("x = (\n", "bad_mod.py, line 1: '(' was never closed (x = ()"),
        ("import sys\nsys.exit(3)\n", "bad_mod.py, line 2: SystemExit: 3 (sys.exit(3))"),
        (HEAD + actor("Mute", doc="pass"), "bad_mod: Mute has no docstring; people will see its first sentence"),
        (
            HEAD + actor("One") + actor("Other", body="name = 'one'"),
            "two actors are called 'one': One in bad_mod and Other in bad_mod; give one of them another `name`",
        ),
    ],
)
def test_what_is_wrong(text: str | None, said: str, write: Write, tmp_path: Path) -> None:
    if text is not None:
        write("bad_mod.py", text)
    with pytest.raises(BadActor) as caught:
        discover(["bad_mod"], tmp_path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("gone.py", "there is no file "),
        ("sub/gone.py", "there is no file "),
        ("sub", "sub is a directory; say which file in it"),
        ("sub/", "sub/ is a directory; say which file in it"),
        ("notes.txt", "notes.txt is no Python file"),
        ("no-module", "'no-module' is no name of a module, such as shop.actors; a file is given as path/to/file.py"),
        ("", "'' is no name of a module"),
        ("..up", "'..up' is no name of a module"),
        ("package_mod.missing", "there is no module 'package_mod.missing' in "),
    ],
)
def test_what_is_no_module(place: str, said: str, write: Write, tmp_path: Path) -> None:
    write("notes.txt", "hello")
    write("sub/here.py", "")
    write("package_mod/__init__.py", "")
    with pytest.raises(BadActor) as caught:
        discover([place], tmp_path)
    assert said in str(caught.value)


def test_one_name_in_two_modules(write: Write, tmp_path: Path) -> None:
    write("one_mod.py", HEAD + actor("Same"))
    write("two_mod.py", HEAD + actor("Same"))
    with pytest.raises(BadActor, match=r"'same': .*one_mod.*two_mod"):
        discover(["one_mod", "two_mod"], tmp_path)
