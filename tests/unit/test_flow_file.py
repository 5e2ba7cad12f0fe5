"""Finding a flow: by module, by file, alone or by name; what is wrong is told in one sentence with the user's line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.user_files import Write

from towpath.errors import BadFlow
from towpath.flow.flow import find_flow

ONE = 'from towpath import Flow\nflow = Flow("one")\n'
TWO = 'from towpath import Flow\nfirst = Flow("one")\nagain = first\nsecond = Flow("two")\nnumber = 7\n'

pytestmark = pytest.mark.usefixtures("imports_as_before")


@pytest.mark.parametrize("target", ["shop", "shop:flow", "shop.py", "shop.py:flow", "./shop.py"])
def test_a_flow_of_this_directory(target: str, write: Write, tmp_path: Path) -> None:
    write("shop.py", ONE)
    found = find_flow(target)
    assert (found.flow.name, found.module.__name__, found.paths[0]) == ("one", "shop", str(tmp_path))


def test_a_file_elsewhere_finds_its_neighbours_and_those_of_the_working_directory(write: Write, tmp_path: Path) -> None:
    write("flows/near_one.py", "NAME = 'one'")
    write("near_two.py", "")
    path = write("flows/elsewhere.py", f"import near_two\nfrom near_one import NAME\n{ONE}")
    assert find_flow(str(path)).paths == (str(tmp_path / "flows"), str(tmp_path))


def test_a_file_of_a_package_may_use_relative_imports(write: Write) -> None:
    write("store/__init__.py", "")
    write("store/names.py", "NAME = 'one'")
    write("store/flows.py", f"from .names import NAME\n{ONE}")
    assert find_flow("store/flows.py").module.__name__ == "store.flows"
    assert find_flow("store.flows:flow").flow.name == "one"


@pytest.mark.parametrize("name", ["json.py", "with-hyphen.py", "1st.py"])
def test_a_file_whose_name_cannot_be_imported(name: str, write: Write) -> None:
    write(f"odd/{name}", ONE)
    assert find_flow(f"odd/{name}").flow.name == "one"


def test_which_of_several(write: Write) -> None:
    write("several.py", TWO)
    assert find_flow("several:second").flow.name == "two"
    assert find_flow("several:again").flow.name == "one"


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        (None, "missing", "there is no module 'missing'"),
        (None, "missing.part:flow", "there is no module 'missing'"),
        (None, "missing.py", "there is no file missing.py"),
        (None, ":flow", "is not MODULE:FLOW"),
        (None, "shop:", "is not MODULE:FLOW"),
        ("", "bad.py", "bad.py has no flow; make one"),
        (TWO, "bad.py", "several flows; say which: bad.py:first, bad.py:second"),
        (TWO, "bad.py:third", "bad.py has no 'third'; its flows: bad.py:first, bad.py:second"),
        (TWO, "bad:number", "has a int of the name 'number', not a Flow"),
        ("x = 1\nimport nonsense_x\n", "bad.py", "bad.py, line 2: ModuleNotFoundError: No module named 'nonsense_x'"),
        ("x = (\n", "bad.py", "bad.py, line 1: '(' was never closed"),
        (f"{ONE}y = Flow('no good')\n", "bad", "bad.py, line 3: a flow is named with letters"),
        (
            "def f():\n    return 1 / 0\n\nf()\n",
            "bad",
            "bad.py, line 2: ZeroDivisionError: division by zero (return 1 / 0)",
        ),
        ("raise SystemExit(3)\n", "bad", "bad.py, line 1: SystemExit: 3"),
    ],
)
def test_what_is_wrong(text: str | None, target: str, said: str, write: Write) -> None:
    if text is not None:
        write("bad.py", text)
    with pytest.raises(BadFlow) as caught:
        find_flow(target)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory(write: Write) -> None:
    write("project/flow.py", ONE)
    with pytest.raises(BadFlow, match="project"):
        find_flow("project")


def test_workers_find_what_the_flow_imports(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"/opt/mine{os.pathsep}{tmp_path}")
    path = write("flows/portable.py", ONE)
    found = find_flow(str(path))
    found.take_along()
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(tmp_path / "flows"), str(tmp_path), "/opt/mine"]
    from pyspark import cloudpickle

    cloudpickle.unregister_pickle_by_value(found.module)
