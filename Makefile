# SPDX-License-Identifier: Apache-2.0
#
# `make help` lists the targets. Start with demo and test.

SHELL := /bin/bash
# The modules of the library, and those of the examples.
LIBRARY := . kubernetes dataplane/felix dataplane/wire dataplane/wireguard datastore/etcd datastore/kubernetes
MODULES := $(LIBRARY) examples examples/daemon
# Modules that are not part of the workspace.
TOOLS := tools tools/cluster tools/felix datastore/kubernetes/fleet
# The packages of all modules, for one go command: it tests packages of different modules in parallel.
PACKAGES := $(MODULES:%=./%/...)
# The packages that the race detector runs on: they need no kernel, and several goroutines may use them. The others of
# that kind are slow under it (render takes minutes), and are for one goroutine.
RACE := ./selector/... ./policy/... ./calcgraph/... ./datastore/... \
	./dataplane ./dataplane/dptest/... ./dataplane/nft/ruleset/simulate
# The packages of the library's nested modules.
NESTED := $(patsubst %,./%/...,$(filter-out .,$(LIBRARY)))
# The tests that sample random worlds.
WORLD_TESTS := TestVerdicts|TestRepresentatives|TestHostRepresentatives|$\
	TestIncompleteStatesEqualFreshRenderer|TestJudgesOfRandomStates
FUZZTIME ?= 5s
SOAKTIME ?= 10m
WORLDS ?= 2000
# Each day tests other worlds.
FIRST ?= $(shell expr $$(date +%s) / 86400 '*' 100000)
# Where Debian keeps nft and ip, which an ordinary user's PATH lacks.
export PATH := $(PATH):/usr/sbin:/sbin

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: bin/agent ## Build a small node in a namespace, run the agent on it, print what is connected.
	bin/agent demo $(DEMOFLAGS)

.PHONY: demo-etcd
demo-etcd: bin/agent ## Build three nodes that share an etcd, write one policy, and show when it takes effect on each.
	bin/agent demo --etcd

.PHONY: test
test: test-tools ## Run all tests, those that need the kernel in network namespaces.
	go test -timeout 30m $(PACKAGES)

.PHONY: test-tools
test-tools:
	@scripts/test-tools

.PHONY: test-user
test-user: test-tools ## As root: run the kernel tests and the demo as an ordinary user; examples with -race.
	scripts/test-user

.PHONY: test-bird
test-bird: test-tools ## Run BIRD with the routes dataplane; fetch it if it is not installed.
	scripts/test-bird

.PHONY: test-nft
test-nft: test-tools ## List the tables with the nft of each Debian release.
	scripts/test-nft

.PHONY: test-kernels
test-kernels: test-tools ## Run the kernel tests on Debian's kernels in QEMU: KERNELS (6.1 6.12). Takes hours.
	nice -n 19 scripts/test-kernels $(KERNELS)

.PHONY: test-flowtable
test-flowtable: test-tools ## Run the tests of dataplane/nft with the fast path on 6.1 and 6.12, or on KERNELS. Hours.
	nice -n 19 scripts/test-kernels -p dataplane/nft -t flowtable $(or $(KERNELS),6.1 6.12)

.PHONY: test-wire
test-wire: test-tools ## Send real packets through all worlds that the tests of the nftables backend sample.
	WIRE=whole go test ./dataplane/nft -run 'TestWire|TestPacketsInKernel' -count=1 -timeout 180m -v

.PHONY: test-worlds
test-worlds: test-tools ## Simulate millions of packets of WORLDS (default 2000) random worlds, from seed FIRST on.
	go test ./dataplane/nft/render ./dataplane/nft/internal/revoke -count=1 -timeout 60m -v \
		-run '$(WORLD_TESTS)' -worlds $(WORLDS) -first $(FIRST)

.PHONY: test-nightly
test-nightly: test-worlds test-wire ## Run the tests that take too long for every change: test-worlds and test-wire.

.PHONY: test-etcd
test-etcd: ## Run the tests of datastore/etcd, those with processes also on Debian's etcd-server.
	scripts/test-etcd

.PHONY: test-kubernetes
test-kubernetes: ## Run the tests of datastore/kubernetes on a real API server, which is built first if necessary.
	scripts/test-kubernetes

.PHONY: cluster
cluster: ## As root: build and start a Kubernetes cluster with Wayleave as its network (CLUSTERFLAGS: --nodes 1, ...).
	scripts/cluster-programs
	bin/cluster up $(CLUSTERFLAGS)

.PHONY: cluster-shell
cluster-shell: ## Run a shell in the cluster, with kubectl.
	bin/cluster shell

.PHONY: cluster-down
cluster-down: ## End the cluster. Logs, results and programs stay in bin.
	bin/cluster down

.PHONY: test-cluster
test-cluster: ## Run the suites of Kubernetes on the cluster, or SUITES; print a table.
	bin/cluster test $(SUITES)

.PHONY: compare
compare: ## Measure Wayleave and other implementations of network policy on the cluster, in rounds (COMPAREFLAGS).
	scripts/build-suites kube-router kube-network-policies
	bin/cluster compare $(COMPAREFLAGS)

.PHONY: test-cluster-short
test-cluster-short: ## Start a cluster of one node, run twenty tests and the commands of two pages. Needs root.
	scripts/cluster-programs
	cd tools/cluster && GOWORK=off go test ./...
	bin/cluster up --nodes 1
	bin/cluster test short && bin/cluster pages; status=$$?; bin/cluster down && exit $$status

.PHONY: test-felix
test-felix: ## Check the workloads with which tools/felix measures the calculation graph of Felix.
	cd tools/felix && GOWORK=off go test ./...

.PHONY: race
race: test-tools ## Test concurrent packages and the nested modules with the race detector.
	@# A test or an agent that it starts ends at the first race, so the test fails.
	@# The examples run under it in test-user.
	GORACE=halt_on_error=1 go test -race -short $(RACE) $(NESTED)
	go test -race ./dataplane/nft/applier ./dataplane/nft/conntrack ./internal/netlink -run 'Beside|Wait'

.PHONY: lint
lint: bin/staticcheck bin/gofumpt bin/benchmarks ## Check format, vet, staticcheck, modules, rendered benchmark pages.
	bin/benchmarks page -check
	@set -e; out=$$(bin/gofumpt -l $(MODULES) $(TOOLS)); \
	  if [ -n "$$out" ]; then echo "gofumpt: run 'make fmt' for:"; echo "$$out"; exit 1; fi
	@set -e; for m in $(MODULES); do \
	  echo "== vet and staticcheck, module $$m"; \
	  (cd $$m && go vet -tags guest ./... && $(CURDIR)/bin/staticcheck -tags guest ./...); \
	done
	go vet -tags guest,flowtable ./dataplane/nft
	@set -e; export GOWORK=off; for m in $(TOOLS); do \
	  echo "== vet and staticcheck, module $$m"; \
	  (cd $$m && go vet ./... && $(CURDIR)/bin/staticcheck ./...); \
	done
	@scripts/tidy
	@set -e; for os in darwin windows; do \
	  echo "== builds for $$os"; \
	  export GOOS=$$os; go vet ./... $(NESTED); (cd examples && go build -o /dev/null ./explain); \
	done

# The modules with a schema, and the folders of the generated code.
PROTO_MODULES := dataplane/wire dataplane/felix
PROTO := dataplane/wire/wirepb dataplane/wire/policysync/policysyncpb dataplane/felix/felixpb
PROTO_TOOLS := bin/buf bin/protoc-gen-go bin/protoc-gen-go-grpc

.PHONY: proto
proto: $(PROTO_TOOLS) ## Generate the code of the protocols.
	@set -e; for m in $(PROTO_MODULES); do (cd $$m && PATH=$(CURDIR)/bin:$$PATH buf generate); done

.PHONY: docs
docs: ## Build the site of docs/ in bin/site, and check its links, their anchors, and blocks of code.
	scripts/docs

.PHONY: docs-screenshots
docs-screenshots: ## Build the site, and take screenshots of each page in bin/screenshots.
	scripts/docs screenshots

.PHONY: lint-proto
lint-proto: $(PROTO_TOOLS) ## Check the schemas of the protocols, and that their generated code is up to date.
	@set -e; out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; export PATH=$(CURDIR)/bin:$$PATH; \
	  for m in $(PROTO_MODULES); do \
	    (cd $$m; buf lint; buf format --diff --exit-code proto; buf generate -o "$$out/$$m"); \
	  done; \
	  for code in $(PROTO); do \
	    diff -r "$$out/$$code" $$code || { echo "lint-proto: run 'make proto' for $$code" >&2; exit 1; }; \
	  done

.PHONY: test-publish
test-publish: ## Release all modules in a throwaway clone, then use them as other programs do: go get, go install.
	scripts/test-publish

.PHONY: api-diff
api-diff: ## Compare the exported API with the last release.
	scripts/api-diff

.PHONY: fmt
fmt: bin/gofumpt ## Format all code.
	bin/gofumpt -w $(MODULES) $(TOOLS)

.PHONY: fuzz
fuzz: ## Run every fuzz test for FUZZTIME (default 5s; 300x means 300 runs).
	scripts/fuzz $(FUZZTIME)

.PHONY: soak
soak: test-tools ## Run the agent under churn, kills and traffic for SOAKTIME (default 10m).
	cd examples && go test ./agent/internal/soak -count=1 -v -timeout 24h -soak $(SOAKTIME)

.PHONY: bench
bench: ## Run the benchmarks.
	@set -e; for m in $(MODULES); do (cd $$m && go test -run '^$$' -bench . -benchmem ./...); done

.PHONY: bench-record
bench-record: test-tools bin/benchmarks ## Record the benchmarks of SECTION (several in quotes), and render their pages.
	bin/benchmarks record $(RECORDFLAGS) $(SECTION)

.PHONY: bench-page
bench-page: bin/benchmarks ## Render docs/benchmarks.md, docs/performance.md, charts and tables from docs/benchmarks.
	bin/benchmarks page

.PHONY: bench-kubernetes
bench-kubernetes: ## Measure a node on a real API server with PODS pods (default 100000).
	BENCH=1 WAYLEAVE_SCALE_PODS=$(or $(PODS),100000) scripts/test-kubernetes

.PHONY: fleet
fleet: ## Measure 1,000 nodes on one API server and one etcd (FLEETFLAGS: --nodes 100, ...); takes an hour.
	FLEET='--nodes 1000 --pods-per-node 2 --backend all --rate 1 --timeout 30m $(FLEETFLAGS)' \
	  nice -n 10 scripts/test-kubernetes

.PHONY: clean
clean: ## Remove what was built, unless a cluster runs.
	@if [ -e bin/cluster-state ]; then \
	  echo "clean: a cluster runs or left state behind: run 'make cluster-down' first" >&2; exit 1; \
	fi
	rm -rf bin

.PHONY: bin/agent
bin/agent:
	cd examples && CGO_ENABLED=0 go build -o ../bin/agent ./agent

.PHONY: bin/benchmarks
bin/benchmarks:
	cd tools && GOWORK=off go build -o ../bin/benchmarks ./benchmarks

bin/buf: tools/buf/go.mod tools/buf/go.sum
	cd tools/buf && GOWORK=off go build -o ../../bin/buf github.com/bufbuild/buf/cmd/buf

bin/protoc-gen-go: dataplane/wire/go.mod
	cd dataplane/wire && go build -o ../../bin/protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go

bin/protoc-gen-go-grpc: tools/go.mod tools/go.sum
	cd tools && GOWORK=off go build -o ../bin/protoc-gen-go-grpc google.golang.org/grpc/cmd/protoc-gen-go-grpc

bin/staticcheck: tools/go.mod tools/go.sum
	cd tools && GOWORK=off go build -o ../bin/staticcheck honnef.co/go/tools/cmd/staticcheck

bin/gofumpt: tools/go.mod tools/go.sum
	cd tools && GOWORK=off go build -o ../bin/gofumpt mvdan.cc/gofumpt
