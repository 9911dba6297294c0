# Everything that is done with this repository. Each target is one script or one command; nothing else is needed to read.
# A machine with Go, git and bash can do all of it, with the network for Go's modules the first time.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
export VERSION

.PHONY: help demo build runsc test quick engines plugins lint dist schemas fuzz bench generate clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | awk -F'|' '{printf "  make %-9s %s\n", $$1, $$2}'

demo: build ## Build step-runner and watch it run an example
	@scripts/demo.sh

build: ## Build bin/step-runner and bin/rung for this machine
	@scripts/build.sh bin/ ./cmd/step-runner ./cmd/rung

runsc: ## Build bin/runsc, which the isolation level sandbox needs
	@scripts/runsc.sh bin/runsc

test: ## Run everything that must pass before a change goes in
	@scripts/test.sh

quick: ## Test what differs from main: the changed packages and those that import them
	@scripts/quick.sh

engines: ## Run the tests that need a container engine, sshd and their like
	@scripts/engines.sh

plugins: ## Check, test and build the plugins in plugins/, each a module of its own
	@scripts/plugins.sh

lint: ## Check the code without running it
	@scripts/lint.sh

dist: ## Build everything that a release holds, into build/dist
	@scripts/dist.sh

schemas: build ## Write the JSON schemas that editors read into bin/schemas
	@scripts/schemas.sh bin/step-runner bin/schemas

fuzz: ## Run each fuzz test for FUZZTIME (10s)
	@scripts/fuzz.sh

bench: build ## Measure step-runner
	@go run ./bench

generate: ## Write what is generated: Go of the .proto files, command reference
	@scripts/generate.sh

clean: ## Remove what was built
	rm -rf bin build
