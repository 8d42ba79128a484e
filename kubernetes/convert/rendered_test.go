// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// rendered has the tables for resources on node n1, which has the pods of the tests.
type rendered struct {
	tables     []renderedTable       // with lookups, and with chains
	interfaces map[netip.Addr]string // of the pods, by address
}

type renderedTable struct {
	table     *ruleset.Table
	simulator *simulate.Simulator
}

func renderAll(t *testing.T, resources []policy.Resource) rendered {
	t.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	require.NoError(t, err)
	r := rendered{interfaces: map[netip.Addr]string{}}
	for _, resource := range resources {
		graph.Update(policy.Update{Key: resource.Key(), Resource: resource})
		if pod, ok := resource.(*policy.WorkloadEndpoint); ok {
			require.Equal(t, "n1", pod.Node)
			for _, a := range pod.Addresses {
				r.interfaces[a] = pod.Interface
			}
		}
	}
	graph.InSync()
	batch := graph.Flush()
	for _, chains := range []bool{false, true} {
		cfg := render.Config{NAT: render.NATConfig{Disabled: true}}
		if chains { // a group over this limit has chains
			cfg.Classes.MaxPerGroup = 1
		}
		renderer, err := render.New(cfg)
		require.NoError(t, err)
		renderer.Update(batch)
		table, errs := renderer.Table()
		require.Empty(t, errs)
		require.NoError(t, table.Validate())
		simulator, err := simulate.New(simulate.Config{Table: table})
		require.NoError(t, err)
		r.tables = append(r.tables, renderedTable{table, simulator})
	}
	return r
}

// check compares the outcome of a flow with the verdict of each table, between two pods, or between
// a pod and eth0.
func (r rendered) check(t *testing.T, f verdict.Flow, want verdict.Outcome) {
	t.Helper()
	interfaceOf := func(a netip.Addr) string {
		if name, ok := r.interfaces[a]; ok {
			return name
		}
		return "eth0"
	}
	header := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, f.SrcPort), f.DstPort)
	packet := simulate.Packet{
		IIFName: interfaceOf(f.Src), OIFName: interfaceOf(f.Dst), Src: f.Src, Dst: f.Dst, Protocol: uint8(f.Protocol),
		Transport: slices.Concat(header, make([]byte, 16)),
	}
	for _, r := range r.tables {
		result, err := r.simulator.Run(ruleset.Forward, packet, simulate.Conn{State: ruleset.CtNew})
		require.NoError(t, err)
		require.Equal(t, want == verdict.Deny, result.Verdict != ruleset.Accept, "%s\n%s", f, r.table)
	}
}
