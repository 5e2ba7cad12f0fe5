"""Which Java is taken: the first that fits, in the order that people expect, or an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from towpath.admin import doctor
from towpath.admin.checks import CheckStatus
from towpath.errors import BadSettings, NotInstalled
from towpath.spark import java
from towpath.spark.java import find_java

MakeJava = Callable[[str, str], Path]


@pytest.fixture
def make_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeJava:
    """Makes homes of Java in a world in which there is no other."""
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "USUAL_PLACES", (str(tmp_path / "usual" / "*"),))

    def make(where: str, version: str) -> Path:
        program = tmp_path / where / "bin" / "java"
        program.parent.mkdir(parents=True)
        said = f"""echo 'openjdk version "{version}" 2026-01-01' >&2""" if version else "exit 1"
        program.write_text(f"#!/bin/sh\n{said}\n")
        program.chmod(0o755)
        return tmp_path / where

    return make


def test_the_order(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = make_java("usual/java-17", "17.0.1")
    assert find_java().home == usual
    on_path = make_java("path", "21.0.2")
    assert find_java().home == on_path
    by_variable = make_java("variable", "17.0.9")
    monkeypatch.setenv("JAVA_HOME", str(by_variable))
    assert find_java().home == by_variable
    by_setting = make_java("setting", "21")
    found = find_java(str(by_setting))
    assert (found.home, found.program, found.version) == (by_setting, by_setting / "bin" / "java", 21)


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "22.0.1", ""])
def test_one_that_does_not_fit_is_passed_over(
    version: str, make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java("variable", version)))
    right = make_java("usual/java-17", "17.0.1")
    assert find_java().home == right


@pytest.mark.parametrize(
    ("version", "told"), [("11.0.2", "is Java 11"), ("1.8.0_392", "is Java 1"), ("", "does not work")]
)
def test_without_a_right_one_the_error_says_what_is_there(version: str, told: str, make_java: MakeJava) -> None:
    wrong = make_java("path", version)
    with pytest.raises(NotInstalled) as caught:
        find_java()
    assert f"{wrong}/bin/java {told}" in str(caught.value)
    assert f"apt-get install {java.PACKAGE}" in str(caught.value)


def test_without_any(make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(NotInstalled, match="Java 17 or 21"):
        find_java()


@pytest.mark.parametrize("version", ["11.0.2", ""])
def test_a_wrong_one_that_was_set_is_an_error(version: str, make_java: MakeJava) -> None:
    make_java("path", "17.0.1")
    with pytest.raises(BadSettings, match=r"spark\.java_home"):
        find_java(str(make_java("setting", version)))


def test_a_setting_that_leads_nowhere_is_an_error(make_java: MakeJava, tmp_path: Path) -> None:
    make_java("path", "17.0.1")
    with pytest.raises(BadSettings, match=r"spark\.java_home"):
        find_java(str(tmp_path / "nowhere"))


def test_doctor_names_a_setting_that_cannot_be_used(make_java: MakeJava) -> None:
    make_java("path", "17.0.1")
    assert doctor.java(is_needed=False).health is CheckStatus.OK
    check = doctor.java(is_needed=False, java_home=str(make_java("setting", "11.0.2")))
    assert check.health is CheckStatus.MISSING
    assert "spark.java_home" in check.found
