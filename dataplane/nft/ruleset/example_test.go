// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// forwards is a table that forwards ports of the node. A map leads from protocol and port to the
// address and port of a workload. Masquerading makes replies return through the node.
func forwards(elements ...ruleset.Element) *ruleset.Table {
	return &ruleset.Table{
		Name: "forwards",
		Sets: []*ruleset.Set{{
			Name:     "ports",
			Key:      []ruleset.Type{ruleset.TypeProto, ruleset.TypeService},
			Data:     []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService},
			Elements: elements,
		}},
		Chains: []*ruleset.Chain{
			{
				Name: "in",
				Hook: &ruleset.Hook{
					Type: ruleset.HookNAT, Point: ruleset.Prerouting, Priority: -100,
					Policy: ruleset.Verdict{Kind: ruleset.Accept},
				},
				Rules: []ruleset.Rule{{
					Matches: []ruleset.Match{
						ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(ruleset.NFProtoIPv4)},
						ruleset.Compare{Field: ruleset.FibDaddrType, Value: ruleset.Uint32(ruleset.FibTypeLocal)},
					},
					Statements: []ruleset.Statement{ruleset.NAT{
						Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Map: "ports",
						Fields: []ruleset.Field{ruleset.L4Proto, ruleset.Dport},
					}},
				}},
			},
			{
				Name: "out",
				Hook: &ruleset.Hook{
					Type: ruleset.HookNAT, Point: ruleset.Postrouting, Priority: 100,
					Policy: ruleset.Verdict{Kind: ruleset.Accept},
				},
				Rules: []ruleset.Rule{{
					Matches: []ruleset.Match{
						ruleset.Compare{Field: ruleset.CtStatus, Value: ruleset.Uint32(ruleset.CtDNAT)},
						ruleset.Compare{Field: ruleset.OIFName, Value: ruleset.IfnamePrefix("way")},
					},
					Statements: []ruleset.Statement{ruleset.NAT{Kind: ruleset.Masquerade}},
				}},
			},
		},
	}
}

// forward returns an element of the map: from a TCP port of the node to a port of a workload.
func forward(port uint16, to string) ruleset.Element {
	target := netip.MustParseAddrPort(to)
	return ruleset.Element{
		Key:  []ruleset.Value{ruleset.Byte(6), ruleset.Port(port)},
		Data: []ruleset.Value{ruleset.Addr(target.Addr()), ruleset.Port(target.Port())},
	}
}

// A table of port forwards, and the nft commands that change one version of it to the next.
func Example() {
	old := forwards(forward(80, "10.0.0.1:8080"))
	new := forwards(forward(80, "10.0.0.2:8080"), forward(443, "10.0.0.2:8443"))
	if err := old.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(old)
	ops, err := ruleset.Diff(old, new)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(ruleset.Script(ops))
	// Output:
	// table inet forwards {
	// 	map ports {
	// 		type inet_proto . inet_service : ipv4_addr . inet_service
	// 		elements = { tcp . 80 : 10.0.0.1 . 8080 }
	// 	}
	//
	// 	chain in {
	// 		type nat hook prerouting priority -100; policy accept;
	// 		meta nfproto ipv4 fib daddr type local dnat ip to meta l4proto . th dport map @ports
	// 	}
	//
	// 	chain out {
	// 		type nat hook postrouting priority 100; policy accept;
	// 		ct status dnat oifname "way*" masquerade
	// 	}
	// }
	// delete element inet forwards ports { tcp . 80 }
	// add element inet forwards ports { tcp . 80 : 10.0.0.2 . 8080, tcp . 443 : 10.0.0.2 . 8443 }
}

// A table is parsed from text and changed. Diff returns the operations for the change.
func ExampleParse() {
	const text = `
		table inet guard {
			set blocked {
				type ipv4_addr
				flags interval
				elements = { 192.0.2.0/24, 198.51.100.7 }
			}
			chain in {
				type filter hook input priority filter; policy accept;
				ct state established,related accept
				ip saddr @blocked counter drop
			}
		}`
	old, err := ruleset.Parse(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	new, err := ruleset.Parse(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	blocked := new.Sets[0]
	blocked.Elements = append(blocked.Elements[:1], ruleset.Element{
		Key: []ruleset.Value{ruleset.Addr(netip.MustParseAddr("203.0.113.9"))},
	})
	ops, err := ruleset.Diff(old, new)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(ruleset.Script(ops))
	_, err = ruleset.Parse("table inet guard {\n\tchain in {\n\t\tqueue num 1\n\t}\n}\n")
	fmt.Println(err)
	// Output:
	// delete element inet guard blocked { 198.51.100.7 }
	// add element inet guard blocked { 203.0.113.9 }
	// ruleset: line 3, column 3: "queue": no match or statement of the model
}
