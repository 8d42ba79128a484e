// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// S105: a pod reaches its own node only with endpoint-to-host "accept". verify proves both cases.
func TestEndpointToHost(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	require.NoError(t, node.AddAddr("lo", netip.MustParsePrefix("192.0.2.1/32")))
	nstest.Serve(t, node, "192.0.2.1:80", "node")
	web := nstest.NewWorkload(t, node, convert.InterfaceName("shop", "web"), "10.0.0.1")
	write(t, dir, "pods.yaml", namespace+pod("web", "10.0.0.1")+`---
apiVersion: v1
kind: Node
metadata: {name: n}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}
`)
	for _, c := range []struct {
		set     map[string]string
		reaches bool
	}{
		{nil, false},
		{map[string]string{"endpoint-to-host": "accept"}, true},
		{map[string]string{"endpoint-to-host": "drop"}, false},
	} {
		r := startWith(t, node, dir, t.TempDir(), c.set)
		r.until(t, well)
		if c.reaches {
			require.Equal(t, "node", nstest.Answer(t, web.NS, "tcp", "192.0.2.1:80"))
		} else {
			require.True(t, nstest.Dropped(t, web.NS, "192.0.2.1:80"))
		}
		verified(t, r)
		r.end(t)
	}
}

// With nat-exclude-nodes, packets from a pool with natOutgoing to a node keep their source.
func TestNATExcludeNodes(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	write(t, dir, "pool.yaml", `apiVersion: projectcalico.org/v3
kind: IPPool
metadata: {name: pods}
spec: {cidr: 10.0.0.0/16, natOutgoing: true}
---
apiVersion: v1
kind: Node
metadata: {name: other}
status: {addresses: [{type: InternalIP, address: 192.0.2.7}]}
`)
	for _, excluded := range []string{"false", "true"} {
		r := startWith(t, node, dir, t.TempDir(), map[string]string{"nat-exclude-nodes": excluded})
		r.until(t, well)
		table := nstest.NFT(t, node, "", "list", "table", "inet", "wayleave")
		require.Contains(t, table, "masquerade")
		require.Equal(t, excluded == "true", strings.Contains(table, "192.0.2.7"), table)
		r.end(t)
	}
}
