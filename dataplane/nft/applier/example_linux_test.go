// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
)

// A program that keeps a list of blocked addresses in a table of its own. It works in a temporary
// network namespace. A program without NetNS works in its own namespace.
func Example() {
	ns, err := netns.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ns.Close()

	a, err := applier.New(applier.Config{Name: "blocklist", NetNS: ns.FD()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	ctx := context.Background()
	blocked := func(s string) ruleset.Element {
		return ruleset.Element{Key: []ruleset.Value{ruleset.Addr(netip.MustParseAddr(s))}}
	}
	table := &ruleset.Table{
		Name: "blocklist",
		Sets: []*ruleset.Set{{
			Name: "blocked", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: []ruleset.Element{blocked("192.0.2.1")},
		}},
		Chains: []*ruleset.Chain{{
			Name: "in",
			Hook: &ruleset.Hook{Point: ruleset.Input, Policy: ruleset.Verdict{Kind: ruleset.Accept}},
			Rules: []ruleset.Rule{{
				Matches: []ruleset.Match{
					ruleset.Compare{Field: ruleset.NFProto, Value: ruleset.Byte(ruleset.NFProtoIPv4)},
					ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPSaddr}, Set: "blocked"},
				},
				Statements: []ruleset.Statement{ruleset.Counter{}, ruleset.Verdict{Kind: ruleset.Drop}},
			}},
		}},
	}
	fmt.Println("apply:", a.Apply(ctx, table))
	fmt.Println("apply again:", a.Apply(ctx, table))
	more := []ruleset.ElementDelta{{Set: "blocked", Add: []ruleset.Element{blocked("192.0.2.7")}}}
	fmt.Println("update:", a.Update(ctx, &ruleset.Delta{Elements: more}))
	fmt.Print(a.Table())
	fmt.Println("transactions:", a.Stats().Transactions)
	// Output:
	// apply: <nil>
	// apply again: <nil>
	// update: <nil>
	// table inet blocklist {
	// 	set blocked {
	// 		type ipv4_addr
	// 		elements = { 192.0.2.1,
	// 			     192.0.2.7 }
	// 	}
	//
	// 	chain in {
	// 		type filter hook input priority filter; policy accept;
	// 		ip saddr @blocked counter drop
	// 	}
	// }
	// transactions: 2
}
