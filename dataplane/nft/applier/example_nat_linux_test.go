// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// A table that masquerades packets from a bridge to other interfaces. It needs CAP_NET_ADMIN, so it
// does not run as a test.
func Example_nat() {
	a, err := applier.New(applier.Config{Name: "example-nat"})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	err = a.Apply(context.Background(), &ruleset.Table{
		Name: "example-nat",
		Chains: []*ruleset.Chain{{
			Name: "out",
			Hook: &ruleset.Hook{
				Type: ruleset.HookNAT, Point: ruleset.Postrouting, Priority: 100,
				Policy: ruleset.Verdict{Kind: ruleset.Accept},
			},
			Rules: []ruleset.Rule{{
				Matches: []ruleset.Match{
					ruleset.Compare{Field: ruleset.IIFName, Value: ruleset.Ifname("br0")},
					ruleset.Compare{Field: ruleset.OIFName, Not: true, Value: ruleset.Ifname("br0")},
				},
				Statements: []ruleset.Statement{ruleset.NAT{Kind: ruleset.Masquerade}},
			}},
		}},
	})
	if err != nil {
		log.Fatal(err) // an *applier.Error names the object that the kernel refused
	}
}

// opened is a table whose verdict map has the ports of each address that are open.
func opened(elements ...ruleset.Element) *ruleset.Table {
	return &ruleset.Table{
		Name: "opened",
		Sets: []*ruleset.Set{{
			Name: "open", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService}, Verdicts: true,
			Elements: elements,
		}},
		Chains: []*ruleset.Chain{{
			Name: "forward",
			Hook: &ruleset.Hook{Point: ruleset.Forward, Policy: ruleset.Verdict{Kind: ruleset.Drop}},
			Rules: []ruleset.Rule{{
				Matches: []ruleset.Match{
					ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(ruleset.NFProtoIPv4)},
					ruleset.Compare{Field: ruleset.L4Proto, Value: ruleset.Byte(6)},
				},
				Statements: []ruleset.Statement{ruleset.VMap{
					Fields: []ruleset.Field{ruleset.IPDaddr, ruleset.Dport}, Map: "open",
				}},
			}},
		}},
	}
}

// openPort is an element of the map: TCP to the address and port is accepted.
func openPort(to string) ruleset.Element {
	target := netip.MustParseAddrPort(to)
	return ruleset.Element{
		Key:     []ruleset.Value{ruleset.Addr(target.Addr()), ruleset.Port(target.Port())},
		Verdict: &ruleset.Verdict{Kind: ruleset.Accept},
	}
}

// A change of a verdict map costs one element, however many there are. PlanTable prints it first.
// It needs CAP_NET_ADMIN, so it does not run as a test.
func Example_verdictMap() {
	a, err := applier.New(applier.Config{Name: "opened"})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	ctx := context.Background()
	if err := a.Apply(ctx, opened(openPort("10.0.0.1:80"))); err != nil {
		log.Fatal(err)
	}
	plan, err := a.PlanTable(opened(openPort("10.0.0.1:80"), openPort("10.0.0.2:443")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(ruleset.Script(plan)) // add element inet opened open { 10.0.0.2 . 443 : accept }
	change := ruleset.ElementDelta{Set: "open", Add: []ruleset.Element{openPort("10.0.0.2:443")}}
	if err := a.Update(ctx, &ruleset.Delta{Elements: []ruleset.ElementDelta{change}}); err != nil {
		log.Fatal(err)
	}
}
