// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The agent compares kernel, table and policy, and the command prints the result as text or as
// JSON.
func TestVerify(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": onePod, "deny.yaml": denyAll})
	startAnAgent(t, dir)
	code, out, errs := call(t, "verify")
	require.Zero(t, code, "%s%s", out, errs)
	require.Empty(t, errs)
	require.Regexp(t, `^table wayleave in the kernel: equal \(\d+ chains, \d+ sets, \d+ elements\)\n`+
		`\d+ packets of 1 endpoints \(1 groups, \d+ kinds of addresses\): policy and table agree\n`, out)
	require.Contains(t, out, "\nnot proved: ")
	code, out, errs = call(t, "verify", "--json")
	require.Zero(t, code, errs)
	var v pipeline.Verified
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.True(t, v.Kernel.Equal())
	require.Positive(t, v.Policy.Packets)
}

// A host endpoint without an interface name is found by the addresses in the agent's network
// namespace.
func TestVerifyHostEndpointByAddress(t *testing.T) {
	const host = `apiVersion: projectcalico.org/v3
kind: HostEndpoint
metadata: {name: uplink}
spec: {node: n, expectedIPs: [192.0.2.77]}
`
	node := startAnAgent(t, folderOf(t, map[string]string{"pods.yaml": onePod, "host.yaml": host}))
	require.NoError(t, node.Do(func() error {
		const commands = "ip link add up0 type veth peer name up1 && ip addr add 192.0.2.77/24 dev up0"
		return exec.Command("sh", "-c", commands).Run()
	}))
	require.Eventually(t, func() bool {
		_, out, _ := call(t, "ruleset")
		return strings.Contains(out, "up0")
	}, waitTimeout, 20*time.Millisecond)
	code, out, errs := call(t, "verify")
	require.Zero(t, code, "%s%s", out, errs)
	require.Contains(t, out, "policy and table agree")
}

// While another process changes the table repeatedly, the agent waits between its repairs. Then
// verify finds the difference.
func TestVerifyFindsDifference(t *testing.T) {
	node := startAnAgent(t, folderOf(t, map[string]string{"pods.yaml": onePod}), "shared-table")
	ended := make(chan struct{})
	var code int
	var out, errs string
	go func() {
		defer close(ended)
		for end := time.Now().Add(waitTimeout); code != statusDiffers && time.Now().Before(end); {
			code, out, errs = call(t, "verify")
		}
	}()
	for changing := true; changing; {
		select {
		case <-ended:
			changing = false
		case <-time.After(20 * time.Millisecond):
			nstest.NFT(t, node, "", "insert", "rule", "inet", "wayleave", "forward", "accept")
		}
	}
	require.Equal(t, statusDiffers, code, "%s%s", out, errs)
	require.Contains(t, out, "table wayleave in the kernel: different: chain forward\n")
}

// Without an agent, verify proves the table that it renders from manifests.
func TestVerifyManifests(t *testing.T) {
	dir := folderOf(t, map[string]string{"pods.yaml": onePod, "deny.yaml": denyAll})
	for _, more := range [][]string{nil, {"--bridges", "br0,br1"}} {
		code, out, errs := call(t, append([]string{"verify", "--manifests", dir, "--node", "n"}, more...)...)
		require.Zero(t, code, "%s%s", out, errs)
		require.Contains(t, out, "table wayleave not compared with the kernel\n")
		require.Contains(t, out, "policy and table agree\n")
	}
	code, out, errs := call(t, "ruleset", "--manifests", dir, "--node", "n", "--bridges", "br0,br1")
	require.Zero(t, code, errs)
	require.Contains(t, out, `{ "br0", "br1" }`)
}

// A node that is not in the manifests is an error, not a difference. The error lists the nodes that
// are there.
func TestVerifyManifestsOfAnotherNode(t *testing.T) {
	code, out, errs := call(t, "verify", "--manifests", "demo", "--node", "vm")
	require.Equal(t, statusFailed, code)
	require.Empty(t, out)
	require.Equal(t, "agent verify: the manifests have no object of node \"vm\": "+
		"set --node to one of these nodes: demo\n", errs)

	pods := folderOf(t, map[string]string{"deny.yaml": denyAll})
	code, _, errs = call(t, "verify", "--manifests", pods, "--node", "vm")
	require.Equal(t, statusFailed, code)
	require.Contains(t, errs, `the manifests have no object of node "vm": add a Node`)

	files := map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		files[name+".yaml"] = "apiVersion: v1\nkind: Node\nmetadata: {name: " + name + "}\n"
	}
	code, _, errs = call(t, "verify", "--manifests", folderOf(t, files), "--node", "vm")
	require.Equal(t, statusFailed, code)
	require.Contains(t, errs, "one of these nodes: a, b, c, d, e and 2 more\n")
}

// On a node without endpoints, the table and policy agree, too.
func TestVerifyNodeWithoutObjects(t *testing.T) {
	startAnAgent(t, folderOf(t, map[string]string{"deny.yaml": denyAll}))
	code, out, errs := call(t, "verify")
	require.Zero(t, code, "%s%s", out, errs)
	require.Contains(t, out, "policy and table agree\n")
}

func TestVerifyFails(t *testing.T) {
	code, _, errs := call(t, "verify", "--socket", filepath.Join(t.TempDir(), "none.sock"))
	require.Equal(t, statusFailed, code)
	require.Contains(t, errs, "no agent is running there")
	code, _, errs = call(t, "verify", "--limit", "0")
	require.Equal(t, 2, code)
	require.Contains(t, errs, "--limit")
}
