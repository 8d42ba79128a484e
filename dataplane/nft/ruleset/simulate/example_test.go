// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// The verdict on a packet, and the rules that lead to it, without a kernel.
func ExampleSimulator() {
	allowed := ruleset.Verdict{Kind: ruleset.Accept}
	t := &ruleset.Table{Name: "example", Chains: []*ruleset.Chain{{
		Name: "in",
		Hook: &ruleset.Hook{Point: ruleset.Input, Policy: ruleset.Verdict{Kind: ruleset.Drop}},
		Rules: []ruleset.Rule{
			{
				Matches: []ruleset.Match{ruleset.Compare{
					Field: ruleset.CtState, Value: ruleset.Uint32(ruleset.CtEstablished),
				}},
				Statements: []ruleset.Statement{allowed},
				Comment:    "known connections",
			},
			{
				Matches: []ruleset.Match{
					ruleset.Compare{Field: ruleset.L4Proto, Value: ruleset.Byte(6)},
					ruleset.Compare{Field: ruleset.Dport, Value: ruleset.Port(22)},
				},
				Statements: []ruleset.Statement{allowed},
				Comment:    "ssh",
			},
		},
	}}}
	s, err := simulate.New(simulate.Config{Table: t})
	if err != nil {
		fmt.Println(err)
		return
	}
	packet := simulate.Packet{
		IIFName: "eth0", Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), Protocol: 6,
	}
	for _, port := range []uint16{22, 80} {
		packet.DstPort = port
		result, err := s.Trace(ruleset.Input, packet, simulate.Conn{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("port", port)
		for _, step := range result.Trace {
			fmt.Println(" ", step.Chain, step.Rule, step.Comment, step.Verdict)
		}
	}
	// Output:
	// port 22
	//   in 1 ssh accept
	// port 80
	//   in -1  drop
}
