// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"slices"
	"testing"
)

// BenchmarkBridgedPackets measures the cost of packets between two workloads of one node: routed,
// and as frames between two ports of a bridge with bridge-nf-call-iptables. Conntrack is only
// connection tracking.
func BenchmarkBridgedPackets(b *testing.B) {
	pin(b)
	c := &comparison{}
	fresh, once := rigFlows(20_000), slices.Repeat(rigFlows(1), 20_000)
	for _, bridged := range []bool{false, true} {
		way := map[bool]string{false: "routed", true: "bridged"}[bridged]
		bare := newRig(b, "way0", "way1")
		if bridged {
			bare.bridge(b)
		}
		load(b, bare.node, baselines()[1].table)
		c.flows(bare, "/conntrack", way, bare.frames(bare.client, fresh), bare.frames(bare.client, once), once[0].dst)
		for _, n := range []int{1, 1000} {
			r, _, _ := judged{policies: n, local: true, bridged: bridged}.program(b, form{})
			name := fmt.Sprintf("/policies=%d", n)
			c.flows(r, name, way, r.frames(r.client, fresh), r.frames(r.client, once), once[0].dst)
		}
	}
	c.run(b, sized(25, 3))
}
