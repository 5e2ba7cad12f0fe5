"""Write the locks of src/towpath/spark/locks: which files belong to a set, with sizes and hashes.

    scripts/artifacts.py NAME…    resolve these sets anew
    scripts/artifacts.py --all    resolve all

Which registry is asked is Ivy's own configuration; its name is not written.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from towpath.spark.artifacts import (
    ELASTICSEARCH,
    KAFKA,
    OPENSEARCH,
    SETS,
    SPARK_KAFKA,
    Artifact,
    Coordinates,
    command,
    sha256_of,
)
from towpath.spark.java import Java, find_java

LOCKS = Path(__file__).resolve().parent.parent / "src" / "towpath" / "spark" / "locks"

MODULE = """<ivy-module version="2.0"><info organisation="towpath" module="{name}"/>
<configurations defaultconfmapping="default"><conf name="default"/></configurations>
<dependencies>{dependencies}</dependencies></ivy-module>
"""
DEPENDENCIES = {
    # pyspark has what is excluded. The token provider of 4.2.0 is in no registry; that of 4.0.0 works with it.
    SPARK_KAFKA: """
<dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="4.2.0" conf="default->master,runtime(*)"/>
<exclude org="org.apache.hadoop"/><exclude org="org.slf4j"/><exclude org="org.scala-lang"/>
<exclude module="spark-tags_2.13"/>
<override org="org.apache.spark" module="spark-token-provider-kafka-0-10_2.13" rev="4.0.0"/>""",
    # The last lets the broker write its log by log4j; without it there is none.
    KAFKA: """
<dependency org="org.apache.kafka" name="kafka_2.13" rev="4.3.1" conf="default->master,runtime(*)"/>
<dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->master"/>
""",
    # The only distribution of the server that is in a registry for Java libraries.
    ELASTICSEARCH: """
<dependency org="org.elasticsearch.distribution.integ-test-zip" name="elasticsearch" rev="8.19.21" transitive="false">
<artifact name="elasticsearch" type="zip" ext="zip"/></dependency>""",
    # As above. The next major version needs Java 21.
    OPENSEARCH: """
<dependency org="org.opensearch.distribution.integ-test-zip" name="opensearch" rev="2.19.6" transitive="false">
<artifact name="opensearch" type="zip" ext="zip"/></dependency>""",
}


def resolve(name: str, java: Java) -> list[Artifact]:
    with tempfile.TemporaryDirectory(prefix="towpath-locks-") as directory:
        scratch = Path(directory)
        module = scratch / "ivy.xml"
        module.write_text(MODULE.format(name=name, dependencies=DEPENDENCIES[name]), encoding="utf-8")
        done = subprocess.run(
            command(java, scratch, ["-ivy", str(module)]), capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            sys.exit(f"error: {name} cannot be resolved:\n{done.stdout.strip()}\n{done.stderr.strip()}")
        return read_report(scratch / "cache" / f"towpath-{name}-default.xml")


def read_report(path: Path) -> list[Artifact]:
    """The files that Ivy has chosen, from the report that it writes."""
    found = []
    for module in ElementTree.parse(path).iter("module"):  # noqa: S314, Ivy has written it a moment ago
        for revision in module.iter("revision"):
            for file in revision.iter("artifact"):
                location = Path(file.attrib["location"])
                names = (
                    module.attrib["organisation"],
                    file.attrib["name"],
                    revision.attrib["name"],
                    file.attrib["ext"],
                )
                found.append(Artifact(Coordinates(*names), sha256_of(location), location.stat().st_size))
    return sorted(found, key=lambda artifact: artifact.line)


def main(words: list[str]) -> None:
    names = SETS if words == ["--all"] else words
    if not names or not set(names) <= set(SETS):
        sys.exit(f"usage: scripts/artifacts.py {'|'.join(SETS)}|--all")
    java = find_java()
    LOCKS.mkdir(exist_ok=True)
    for name in names:
        artifacts = resolve(name, java)
        (LOCKS / f"{name}.lock").write_text("".join(f"{artifact.line}\n" for artifact in artifacts), encoding="utf-8")
        total = sum(artifact.size for artifact in artifacts)
        print(f"{name}: {len(artifacts)} files, {total / 1e6:.0f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
