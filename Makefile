# `make` alone lists the targets. Go is enough for demo and build; test and
# stress find or install PostgreSQL, Redis and a C compiler by themselves.

# Nothing is stamped with the commit: that fails where the clone belongs to
# another user. Flags of your own stay in force.
export GOFLAGS := $(strip -buildvcs=false $(shell go env GOFLAGS))

PKG  ?= ./...
RUN  ?=
ARGS ?=
TEST_TIMEOUT ?= 20m

LINT := go tool -modfile=.golangci/go.mod golangci-lint

.DEFAULT_GOAL := help
.PHONY: help demo build test cover stress recovery lint fmt ci testenv

help: ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

demo: build ## charge, run, kill, refund: a dozen pictures (PROMPTS=FILE for your own)
	bin/makegood demo $(if $(PROMPTS),--prompts '$(PROMPTS)') $(ARGS)

build: ## build the commands into bin/
	go build -o bin/ ./cmd/...

test: testenv ## all tests with the race detector (PKG=./ledger/... RUN=TestName ARGS=-v)
	bin/testenv -with postgres,redis,cc -- go test -race -timeout $(TEST_TIMEOUT) $(if $(RUN),-run '$(RUN)') $(ARGS) $(PKG)

cover: testenv ## how much of the code the tests reach: coverage/index.html
	mkdir -p coverage
	bin/testenv -- go test -timeout $(TEST_TIMEOUT) -coverpkg=./... -coverprofile=coverage/profile $(PKG)
	go tool cover -html=coverage/profile -o coverage/index.html
	go tool cover -func=coverage/profile | tail -n 1

stress: ## workers killed with -9 under load; every credit accounted for (ARGS=--help)
	@go build -o bin/ ./internal/stress
	bin/stress $(ARGS)

recovery: ## how soon all is well after kills and outages: a table (ONLY=scenario,…; ARGS=--help)
	@go build -o bin/ ./internal/recovery
	bin/recovery $(if $(ONLY),-only '$(ONLY)') $(ARGS)

lint: ## format, vet, linters, tidy go.mod
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted (make fmt):"; echo "$$unformatted"; exit 1; }
	go vet ./...
	$(LINT) run ./...
	go mod tidy -diff

fmt: ## format the code
	gofmt -w .

ci: ## what .ci/run runs: lint, then the tests, one after the other
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test

# The race detector needs a C compiler, this program none: it may be what
# installs one.
testenv:
	@CGO_ENABLED=0 go build -o bin/testenv ./internal/testenv/run
