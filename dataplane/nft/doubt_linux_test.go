// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// S167: a typo in the ports of a Deny allows nothing more: all connections by IPv4 and IPv6 are
// denied until it is corrected.
func TestDenyInDoubt(t *testing.T) { nfttest.EachFormInParallel(t, testDenyInDoubt) }

func testDenyInDoubt(t *testing.T, classes render.ClassesConfig) {
	n := newNetwork(t)
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	require.NoError(t, err)
	set := func(r policy.Resource) { graph.Update(policy.Update{Key: r.Key(), Resource: r}) }
	all := []policy.Rule{{Action: policy.Allow}}
	set(&policy.Profile{Name: "all", Ingress: all, Egress: all})
	for i, name := range []string{"way1", "way2"} {
		set(&policy.WorkloadEndpoint{
			Name: name, Node: "n1", Interface: name, Addresses: workloadAddrs(i), Profiles: []string{"all"},
		})
	}
	graph.InSync()
	d := open(t, n.node, render.Config{Classes: classes})
	changes, dials := 0, 0
	step := func(ports string, want map[uint16]bool) {
		t.Helper()
		r, err := policy.Decode([]byte(`{"kind":"Policy","name":"p","types":["Ingress"],"ingress":[` +
			`{"action":"Deny","protocol":"TCP","destination":{"ports":` + ports + `}},{"action":"Allow"}]}`))
		require.NoError(t, err)
		set(r)
		require.NoError(t, d.Apply(t.Context(), graph.Flush()))
		changes++
		for port, open := range want {
			for _, to := range workloadAddrs(1) {
				timeout := waitTimeout
				if !open {
					timeout = dropTimeout
				}
				conn := n.dial(t, 0, to, port, timeout)
				require.Equal(t, open, conn != nil, "ports %s: %s port %d", ports, to, port)
				if conn != nil {
					require.NoError(t, conn.Close())
				}
				dials++
			}
		}
	}
	step(`[80]`, map[uint16]bool{80: false, 81: true})
	step(`[80, 99999]`, map[uint16]bool{80: false, 81: false})
	step(`[80, "90-80"]`, map[uint16]bool{80: false, 81: false})
	step(`[80]`, map[uint16]bool{80: false, 81: true})
	t.Logf("%d changes, %d connections tried", changes, dials)
}
