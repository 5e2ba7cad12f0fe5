.DEFAULT_GOAL := help
.PHONY: help demo test check docs bench-queue bench-log bench-flow bench-delivery soak-queue soak-flow recover chaos-delivery lock clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

demo: ## see it work: 20,000 events with every kind of fault through a flow on Spark, each in exactly one place
	@scripts/bootstrap runtime
	@.venv/bin/towpath demo

test: ## everything that has to hold: format, lint, types, import contracts, documents, tests
	@scripts/bootstrap dev
	@scripts/test $(ARGS)

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

soak-queue: ## two minutes of work with random kills and a database restart
	@scripts/bootstrap dev
	@.venv/bin/python -m soak.queue $(ARGS)

soak-flow: ## ten million records through a flow: the driver's memory must not grow with them (takes minutes)
	@scripts/bootstrap dev
	@.venv/bin/python -m soak.flow $(ARGS)

recover: ## kill flows at every crash point with every strategy, sink and shape, once and twice (takes up to two hours)
	@scripts/bootstrap dev
	@.venv/bin/python -m tests.recovery.delivery $(ARGS)

chaos-delivery: ## three stages on Kafka and PostgreSQL under 200 random kills: every record in one place (over half an hour)
	@scripts/bootstrap dev
	@.venv/bin/python -m soak.delivery $(ARGS)

lock: ## resolve the locks anew (ARGS=--upgrade for the newest versions)
	@scripts/lock $(ARGS)

clean: ## remove what the other verbs made
	rm -rf .venv .venv-bench .venv-bench-flow .cache .bootstrap.lock site build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
