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

// notRun has the blocks of commands that no test runs, with the reason. The key is the page and the first line, or the
// page for all its blocks. TestCommandsOfPages in examples/agent runs all others.
var notRun = map[string]string{
	"CONTRIBUTING.md: make test":                            "it runs the tests",
	"README.md: go get github.com/wayleave/wayleave":        "a published version; make test-publish runs it",
	"docs/agent.md: make bin/agent":                         "it runs until it is stopped",
	"docs/agent.md: unshare --net --mount bash":             "a terminal; the test makes the namespaces",
	"docs/agent.md: export WAYLEAVE_ETCD":                   "a server of etcd; make demo-etcd has one",
	"docs/agent.md: agent run --in-cluster":                 "a cluster",
	"docs/agent.md: agent install-cni":                      "a cluster",
	"docs/agent.md: kubectl":                                "a cluster",
	"docs/agent.md: mkdir -p /opt/cni/bin":                  "the system's folders, and a package of Debian",
	"docs/agent.md: (cd examples && go build -o /usr/local": "the plugin that the block above installs",
	"docs/agent.md: nft list tables":                        "the table of an earlier agent",
	"docs/benchmarks.md":                                    "hours",
	"docs/bridges.md: modprobe br_netfilter":                "a module of the kernel",
	"docs/cluster.md":                                       "a cluster",
	"docs/comparison.md":                                    "a cluster",
	"docs/conformance.md":                                   "a cluster",
	"docs/dataplane.md":                                     "make test runs these tests",
	"docs/datastore.md":                                     "a server of etcd with users",
	"docs/fleet.md":                                         "an hour",
	"docs/kernels.md":                                       "hours, and virtual machines",
	"docs/kubernetes.md: (cd examples":                      "scripts/cluster-programs runs it",
	"docs/migrate-felix.md":                                 "a cluster",
	"docs/migrate-kube-network-policies.md":                 "a table of kube-network-policies",
	"docs/routes.md: ip link add ipip.way":                  "a module of the kernel",
	"docs/routes.md: ip link add up-vrf":                    "a module of the kernel",
	"docs/troubleshooting.md":                               "an agent that has the symptom",
	"docs/wireguard.md":                                     "a module of the kernel",
}

// TestCommandsRunOrAreListed checks that each block of commands on a page is run or listed. A test runs the blocks with
// the tag sh. The command "make test-cluster-short" runs the blocks with the tag "sh cluster". All other blocks are in
// notRun.
func TestCommandsRunOrAreListed(t *testing.T) {
	block := regexp.MustCompile("(?ms)^ *```([^\n]*)\n *([^\n]*)\n.*?^ *```$")
	used := map[string]bool{}
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
			listed := false
			for key := range notRun {
				if key == name || strings.HasPrefix(name+": "+b[2], key) && strings.Contains(key, ": ") {
					listed, used[key] = true, true
				}
			}
			if !listed {
				t.Errorf("%s: neither run nor listed, tag %q: %s", name, b[1], b[2])
			}
		}
	}
	for key := range notRun {
		require.True(t, used[key], "no block %s", key)
	}
}
