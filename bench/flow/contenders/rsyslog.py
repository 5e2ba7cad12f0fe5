"""rsyslog: its Kafka input and its Elasticsearch output. It neither validates nor knows offsets, so ids are made up."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.flow.contenders.turn import Turn, my_turn, wait_for_end, wait_for_start
from bench.flow.rsyslog import Rsyslog, fetched
from bench.flow.settings import CHUNK
from bench.flow.workload import INDEX

CONFIGURATION = """
global(workDirectory="{home}")
module(load="imkafka")
module(load="omelasticsearch")
main_queue(queue.size="200000" queue.dequeueBatchSize="{chunk}")
template(name="document" type="string" string="%msg%")
input(type="imkafka" topic="{topic}" broker=["{bootstrap}"] consumergroup="{group}" ruleset="load"
      confParam=["auto.offset.reset=earliest"])
ruleset(name="load" queue.type="LinkedList" queue.size="200000" queue.dequeueBatchSize="{chunk}"
        queue.workerThreads="2" queue.workerThreadMinimumMessages="{chunk}") {{
  action(type="omelasticsearch" server="{server}" serverport="{port}" bulkmode="on" maxbytes="10m"
         searchIndex="{index}" searchType="" template="document" action.resumeRetryCount="-1")
}}
"""


def configuration(turn: Turn, rsyslog: Rsyslog) -> str:
    server, _, port = turn.url.removeprefix("http://").rpartition(":")
    return CONFIGURATION.format(
        home=turn.home,
        topic=turn.topic,
        bootstrap=turn.bootstrap,
        group=turn.group,
        chunk=CHUNK,
        server=server,
        port=port,
        index=f"{INDEX}all",
    )


def main() -> None:
    turn, rsyslog = my_turn(), fetched()
    home = Path(turn.home)
    file = home / "rsyslog.conf"
    file.write_text(configuration(turn, rsyslog))
    wait_for_start()
    command = [
        str(rsyslog.program),
        "-n",
        "-M",
        str(rsyslog.libraries / "rsyslog"),
        "-f",
        str(file),
        "-i",
        str(home / "rsyslog.pid"),
    ]
    with (home / "rsyslog.log").open("wb") as said:
        process = subprocess.Popen(command, env=rsyslog.environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        wait_for_end()
        process.kill()
        process.wait()


main()
