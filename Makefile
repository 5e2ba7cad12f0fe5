.DEFAULT_GOAL := help
.PHONY: help demo serve harvest flights test verify mutants coverage check docs bench-queue bench-log bench-flow bench-delivery bench-actors bench-corrections bench-desk bench-supervision bench-gateway bench-console soak-queue soak-flow simulate steady chaos-delivery chaos-up chaos-flights lock clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: ## see it work: 20,000 events with every kind of fault through a flow on Spark, each in exactly one place
	@scripts/bootstrap runtime
	@.venv/bin/towpath demo

serve: ## the same with a face: everything under supervision with live traffic and faults, and the console to look at it, until Ctrl-C
	@scripts/bootstrap runtime
	@.venv/bin/towpath demo --serve $(ARGS)

harvest: ## the worked example: crawl a small web, extract documents on Spark, load and search them; kill what you like
	@scripts/bootstrap runtime
	@.venv/bin/python -m examples.harvest $(ARGS)

flights: ## the worked example: clients send flights at the same time, get four answers each, and all are compared with an oracle
	@scripts/bootstrap dev
	@.venv/bin/python -m examples.flights $(ARGS)

test: ## the gate for every change: format, lint, types, import contracts, documents, tests (15 minutes on two cores)
	@scripts/bootstrap dev
	@scripts/test $(ARGS)

verify: ## the proof: every part with all servers, kills and soaks; goes on where it stopped (PART=name, QUICK=1, SEED=n; hours)
	@scripts/bootstrap dev
	@scripts/verify $(if $(PART),--part $(PART)) $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: ## put small faults into the pure cores, one at a time: how many do their unit tests notice? (minutes; goes on where it stopped)
	@scripts/bootstrap dev
	@.venv/bin/python -m scripts.mutants $(ARGS)

coverage: ## run the tests of the gate and say how much of the source they run, in lines and branches
	@scripts/bootstrap dev
	@scripts/test --coverage $(ARGS)

check: ## the static part of test
	@scripts/bootstrap dev
	@scripts/test --static

docs: ## write the reference pages anew and build the documentation into site/
	@scripts/bootstrap dev
	@.venv/bin/python scripts/reference.py
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict
	@echo "site/index.html"

bench-queue: ## measure the queue against its peers (takes minutes; peers get an environment of their own)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.queue $(ARGS)

bench-log: ## measure the log on SQLite, on Kafka and in Spark (takes minutes, on a machine with nothing else to do)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.log $(ARGS)

bench-flow: ## measure flows from Kafka to Elasticsearch against their peers (takes half an hour, on a machine with nothing else to do)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.flow $(ARGS)

bench-delivery: ## measure what the guarantees of delivery cost, and recovery after a kill (takes half an hour, on a machine with nothing else to do)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.delivery $(ARGS)

bench-actors: ## measure actors: transitions beside DBOS, going on after a kill, ten thousand that sleep (takes a quarter of an hour)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.actors $(ARGS)

bench-corrections: ## how right learned corrections are, on generated records whose truth is known (takes a minute)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.corrections $(ARGS)

bench-desk: ## measure the error desk: intake, lists over a million cases, replay, lanes, a flow with errors (takes twenty minutes, on a machine with nothing else to do)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.desk $(ARGS)

bench-supervision: ## measure supervision: deaths noticed and mended, elections, false alarms under load, 200 processes watched (half an hour)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.supervision $(ARGS)

bench-gateway: ## measure the gateway: one client, fifty at once, and flights beside a plain Spark job (takes half an hour, on a machine with nothing else to do)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.gateway $(ARGS)

bench-console: ## measure the console with a million cases and ten million messages: its lists, what is seen how soon, fifty open pages (takes half an hour)
	@scripts/bootstrap dev
	@.venv/bin/python -m bench.console $(ARGS)

soak-queue: ## two minutes of work with random kills and a database restart
	@scripts/bootstrap dev
	@.venv/bin/python -m soak.queue $(ARGS)

soak-flow: ## ten million records through a flow: the driver's memory must not grow with them (takes minutes)
	@scripts/bootstrap dev
	@.venv/bin/python -m soak.flow $(ARGS)

simulate: ## the election and the watch in a simulated world of faults: 1,000 seeds with 3, 5 and 7 peers (takes a minute)
	@scripts/bootstrap dev
	@.venv/bin/python -m simulation $(ARGS)

steady: ## the tests of real time and of processes N times on a machine in trouble: cores busy, a slow disk, processes stopped at random (N=20 takes two hours)
	@scripts/bootstrap dev
	@scripts/bootstrap --cc
	@.venv/bin/python -m steady --rounds $(or $(N),20) $(ARGS)

chaos-delivery: ## three stages on Kafka and PostgreSQL under 200 random kills: every record in one place (over half an hour)
	@scripts/bootstrap dev
	@.venv/bin/python -m soak.delivery $(ARGS)

chaos-up: ## everything that `towpath up` runs, while half of it is killed every 10 to 20 seconds for ten minutes
	@scripts/bootstrap dev
	@.venv/bin/python -m soak.up $(ARGS)

chaos-flights: ## flights of three clients at once while all that runs is killed at random: every answer equals the oracle's (takes a quarter of an hour)
	@scripts/bootstrap dev
	@.venv/bin/python -m soak.flights $(ARGS)

lock: ## resolve the locks anew (ARGS=--upgrade for the newest versions)
	@scripts/lock $(ARGS)

clean: ## remove what the other verbs made
	rm -rf .venv .venv-bench .venv-bench-flow .cache .bootstrap.lock site build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
