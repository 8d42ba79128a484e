// SPDX-License-Identifier: Apache-2.0

package flowtable

import (
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/build"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// twoWorkloads returns the table of two workloads and an uplink.
func twoWorkloads() *ruleset.Table {
	var own []Address
	for name, addrs := range map[string][]string{"way1": {"10.0.0.1", "fd00::1"}, "way2": {"10.0.0.2", "fd00::2"}} {
		for _, a := range addrs {
			own = append(own, Address{Interface: name, Addr: netip.MustParseAddr(a)})
		}
	}
	return rules("wayleave-flowtable", []string{"up0"}, own, []string{"up0", "way1", "way2"})
}

func TestRules(t *testing.T) {
	want, err := os.ReadFile("testdata/table.rules")
	require.NoError(t, err)
	table := twoWorkloads()
	require.Equal(t, string(want), table.String())
	parsed, err := ruleset.Parse(string(want))
	require.NoError(t, err)
	require.True(t, parsed.Equal(table))
}

// Packets of established connections add a flow if both ends qualify. One end must be a workload's
// own address on the interface of this workload. The other end must be an uplink, or another
// workload's own address on the interface of that workload.
func TestWhichPacketsAddFlow(t *testing.T) {
	table := twoWorkloads()
	for i := range table.Chains[0].Rules {
		table.Chains[0].Rules[i].Statements = []ruleset.Statement{build.Drop()} // so that the result shows it
	}
	sim, err := simulate.New(simulate.Config{Table: table})
	require.NoError(t, err)
	type ends struct{ in, out, src, dst string }
	for _, row := range []struct {
		name  string
		ends  ends
		state uint32
		adds  bool
	}{
		{"to another workload", ends{"way1", "way2", "10.0.0.1", "10.0.0.2"}, ruleset.CtEstablished, true},
		{"to the uplink", ends{"way1", "up0", "10.0.0.1", "192.0.2.9"}, ruleset.CtEstablished, true},
		{"from the uplink", ends{"up0", "way2", "2001:db8::9", "fd00::2"}, ruleset.CtEstablished, true},
		{"new connection", ends{"way1", "way2", "10.0.0.1", "10.0.0.2"}, ruleset.CtNew, false},
		{"related connection", ends{"way1", "way2", "10.0.0.1", "10.0.0.2"}, ruleset.CtRelated, false},
		{"false source to a workload", ends{"way1", "way2", "10.0.0.9", "10.0.0.2"}, ruleset.CtEstablished, false},
		{"false source to the uplink", ends{"way1", "up0", "10.0.0.9", "192.0.2.9"}, ruleset.CtEstablished, false},
		{"source of the other workload", ends{"way1", "up0", "fd00::2", "2001:db8::9"}, ruleset.CtEstablished, false},
		{"destination elsewhere", ends{"way1", "way2", "10.0.0.1", "10.0.0.9"}, ruleset.CtEstablished, false},
		{"from uplink to uplink", ends{"up0", "up0", "192.0.2.9", "192.0.2.8"}, ruleset.CtEstablished, false},
		{"to another interface", ends{"way1", "eth9", "10.0.0.1", "192.0.2.9"}, ruleset.CtEstablished, false},
	} {
		result, err := sim.Run(ruleset.Forward, simulate.Packet{
			IIFName: row.ends.in, OIFName: row.ends.out, Protocol: 6, SrcPort: 40000, DstPort: 80,
			Src: netip.MustParseAddr(row.ends.src), Dst: netip.MustParseAddr(row.ends.dst),
		}, simulate.Conn{State: row.state})
		require.NoError(t, err, row.name)
		require.Equal(t, row.adds, result.Verdict == ruleset.Drop, row.name)
	}
}
