// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorded is the reason why no test runs the commands from docs/benchmarks/catalogue.yaml.
const recorded = "make bench-record runs it, in up to an hour"

// notRun has the blocks of commands that TestCommandsOfPages in examples/agent does not run, with
// the reason. The field block is the page and the beginning of the block, with single spaces
// instead of line breaks. No other block of the page has this beginning.
var notRun = []struct{ block, reason string }{
	{"CONTRIBUTING.md: make test", "it runs the tests"},
	{"README.md: go get github.com/wayleave/wayleave", "a published version; make test-publish runs it"},
	{"docs/agent.md: make bin/agent sudo mkdir", "it runs until it is stopped"},
	{"docs/agent.md: unshare --net --mount bash", "a terminal; the test makes the namespaces"},
	{"docs/agent.md: export WAYLEAVE_ETCD", "TestCommandsForEtcd runs it"},
	{"docs/agent.md: agent run --in-cluster", "a cluster"},
	{"docs/agent.md: agent install-cni --in-cluster", "a cluster"},
	{"docs/agent.md: kubectl annotate nodes --all", "a cluster"},
	{"docs/agent.md: mkdir -p /opt/cni/bin", "TestCommandsForContainers runs it"},
	{"docs/agent.md: (cd examples && go build -o /usr/local/bin/cnitool", "TestCommandsForContainers runs it"},
	{"docs/agent.md: nft list tables", "the table of an earlier agent"},
	{"docs/benchmarks.md: make bench-record SECTION=selector", "it records a benchmark"},
	{"docs/benchmarks.md: for i in 1 2 3 4 5; do go test ./selector -run", recorded},
	{"docs/benchmarks.md: for i in 1 2 3; do go test ./selector/labelindex", recorded},
	{"docs/benchmarks.md: go test ./policy ./policy/verdict", recorded},
	{"docs/benchmarks.md: for i in 1 2 3; do go test ./calcgraph", recorded},
	{"docs/benchmarks.md: go test ./dataplane/routes", recorded},
	{"docs/benchmarks.md: go test ./dataplane/nft/applier", recorded},
	{"docs/benchmarks.md: go test ./dataplane/nft -run '^$' -bench '^Benchmark(Renderer", recorded},
	{"docs/benchmarks.md: go test ./dataplane/nft/prove", recorded},
	{"docs/benchmarks.md: go test ./dataplane/nft -run '^$' -bench '^BenchmarkPolicyPackets", recorded},
	{"docs/benchmarks.md: go test ./dataplane/nft -run '^$' -bench '^BenchmarkKnownVariants", recorded},
	{"docs/benchmarks.md: go test ./dataplane/nft -run '^$' -bench '^BenchmarkNewVariants", recorded},
	{"docs/benchmarks.md: go test ./dataplane/nft -run '^$' -bench '^BenchmarkCounters", recorded},
	{"docs/benchmarks.md: go test ./dataplane/nft -run '^$' -bench '^BenchmarkPolicyLimits", recorded},
	{"docs/benchmarks.md: TMPDIR=/dev/shm go test ./datastore/etcd", recorded},
	{"docs/benchmarks.md: make -s bench-kubernetes", recorded},
	{"docs/benchmarks.md: go test ./examples/agent/internal/bench -run '^$' -bench . -skip CgroupLimit", recorded},
	{"docs/benchmarks.md: go test ./examples/agent/internal/daemon", recorded},
	{"docs/benchmarks.md: go test ./examples/agent/internal/bench -run '^$' -bench CgroupLimit", recorded},
	{"docs/bridges.md: modprobe br_netfilter", "a module of the kernel"},
	{"docs/cluster.md: make cluster", "a cluster"},
	{"docs/cluster.md: bin/cluster shell", "a cluster"},
	{"docs/cluster.md: bin/cluster up", "a cluster"},
	{"docs/comparison.md: make cluster", "a cluster"},
	{"docs/conformance.md: make cluster", "a cluster"},
	{"docs/dataplane.md: cd examples && go test ./hosts", "make test runs these tests"},
	{"docs/datastore.md: etcdctl role add agent-n1", "etcdctl, and a server of etcd with users"},
	{"docs/fleet.md: make fleet", "an hour"},
	{"docs/kernels.md: make test-kernels", "hours, and virtual machines"},
	{"docs/kubernetes.md: (cd examples && CGO_ENABLED=0 go build", "scripts/cluster-programs runs it"},
	{"docs/migrate-felix.md: for kind in tiers", "a cluster"},
	{"docs/migrate-felix.md: kubectl annotate nodes --all", "a cluster"},
	{"docs/migrate-kube-network-policies.md: nft list tables", "a table of kube-network-policies"},
	{"docs/routes.md: ip link add ipip.way", "a module of the kernel"},
	{"docs/routes.md: ip link add up-vrf", "a module of the kernel"},
	{"docs/troubleshooting.md: agent explain shop/client", "an agent that has these pods"},
	{"docs/troubleshooting.md: agent explain FROM TO", "the reader fills in the names"},
	{"docs/troubleshooting.md: agent status | grep -E 'drift", "an agent whose table another process changes"},
	{"docs/troubleshooting.md: agent routes", "several nodes, and a module of the kernel"},
	{"docs/troubleshooting.md: agent status | grep -E 'wireguard", "an agent with WireGuard: a module of the kernel"},
	{"docs/troubleshooting.md: curl --unix-socket /run/wayleave/agent.sock 'http", "an agent, and curl"},
	{"docs/troubleshooting.md: curl --unix-socket /run/wayleave/agent.sock http", "an agent, and curl"},
	{"docs/wireguard.md: ip route add blackhole", "a module of the kernel"},
}

// TestCommandsRunOrAreListed checks that each block of commands on a page is run or listed. A test
// runs the blocks with the tag sh. The command "make test-cluster-short" runs the blocks with the
// tag "sh cluster". All other blocks are in notRun.
func TestCommandsRunOrAreListed(t *testing.T) {
	block := regexp.MustCompile("(?ms)^ *```([^\n]*)\n(.*?)^ *```$")
	matches := make([]int, len(notRun))
	onCluster, err := os.ReadFile(filepath.Join(root, "tools/cluster/pages.go"))
	require.NoError(t, err)
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		name, err := filepath.Rel(root, page)
		require.NoError(t, err)
		name = filepath.ToSlash(name)
		for _, b := range block.FindAllStringSubmatch(string(text), -1) {
			if b[1] == "sh cluster" && !strings.Contains(string(onCluster), `"`+name+`"`) {
				t.Errorf("tools/cluster/pages.go does not run %s", name)
			}
			if b[1] != "" && b[1] != "sh no-test" {
				continue
			}
			commands := name + ": " + strings.Join(strings.Fields(b[2]), " ")
			listed := false
			for i, exempt := range notRun {
				if strings.HasPrefix(commands, exempt.block) {
					listed = true
					matches[i]++
				}
			}
			if !listed {
				t.Errorf("neither run nor listed, tag %q: %s", b[1], commands)
			}
		}
	}
	for i, exempt := range notRun {
		require.NotEmpty(t, exempt.reason, exempt.block)
		require.Equal(t, 1, matches[i], "blocks that begin with %s", exempt.block)
	}
}
