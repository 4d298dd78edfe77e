# Tools are built from source at a pinned version, once, into TOOLS.
TOOLS ?= $(CURDIR)/bin
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)

# Packages tested at a time. Each starts databases of its own, so more than the
# machine has cores only makes all of them slow.
PARALLEL ?= 2

# Tests of a package at a time. Most of them wait, for the database or for a lease
# to end, so a few more than the machine has cores keep it busy.
TESTS ?= 4

PGBOUNCER ?= $(shell command -v pgbouncer || echo /usr/sbin/pgbouncer)

.DEFAULT_GOAL := help

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## run every test under the race detector, against a real PostgreSQL
	go test -race -timeout 20m -p $(PARALLEL) -parallel $(TESTS) ./...

test-short: ## run the tests that take no time, without the race detector
	go test -short -timeout 5m -p $(PARALLEL) ./...

cover: ## run the tests and print the coverage of each package
	go test -timeout 20m -p $(PARALLEL) -coverpkg=./... -coverprofile=coverage.out ./...
	go tool cover -func=coverage.out | tail -1

chaos: ## kill, freeze, cut off and starve workers and the server, for a few minutes
	COPPICE_CHAOS=1 go test -count 1 -v -timeout 15m ./internal/chaos

soak: ## walk the model for a million steps and race everything many times: about an hour
	COPPICE_MODEL_STEPS=1000000 go test -count 1 -timeout 90m -run 'TestEveryStepIsTheModels' ./store
	go test -race -count 10 -timeout 90m -p 1 -run 'Race|Racing|Pair|Groups|Limits|Many|Crowd|Model' ./store ./engine

bench: ## run the benchmarks, with their memory
	go test -run '^$$' -bench . -benchmem -timeout 30m -p 1 ./...

test-versions: ## run what speaks SQL against every server whose URL is in SERVERS, as superuser
	@set -e; for url in $(SERVERS); do \
		echo "$$url"; \
		COPPICE_TEST_DATABASE_URL="$$url" go test -count 1 -timeout 20m -p $(PARALLEL) ./store ./engine ./migrations ./dlq ./reaper; \
	done

test-pgbouncer: ## run the core behind PgBouncer in transaction mode; PGBOUNCER names the program
	COPPICE_PGBOUNCER=$(PGBOUNCER) go test -race -run BehindPgBouncer -count 1 -timeout 5m ./engine

readme-check: ## run the commands that the README shows
	COPPICE_README_CHECK=1 go test -run TestReadmeCommandsRun -count 1 -v -timeout 30m ./internal/house

build: ## build the coppice command into bin/
	go build -o bin/ ./cmd/...

fmt: $(GOLANGCI) ## format the code
	$(GOLANGCI) fmt

vet: ## run go vet
	go vet ./...

lint: $(GOLANGCI) ## run the linters of .golangci.yml
	$(GOLANGCI) run ./...

clean: ## remove what the other targets built
	rm -rf bin coverage.out

$(GOLANGCI):
	GOBIN=$(TOOLS)/install go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/install/golangci-lint $@
	rmdir $(TOOLS)/install

.PHONY: help test test-short test-versions test-pgbouncer cover chaos soak bench readme-check build fmt vet lint clean
