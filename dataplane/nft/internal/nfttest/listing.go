// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Listing returns nft's listing of the ruleset in the namespace. The listing has neither the values
// of counters nor the owners of tables.
func Listing(t testing.TB, ns *netns.NS) string {
	t.Helper()
	return nstest.WithoutOwner(nstest.NFT(t, ns, "", "-s", "list", "ruleset"))
}

// TableListing returns the listing of one table of family inet, in the form of Listing.
func TableListing(t testing.TB, ns *netns.NS, name string) string {
	t.Helper()
	return nstest.WithoutOwner(nstest.NFT(t, ns, "", "-s", "list", "table", "inet", name))
}

// RequireLists fails the test if the ruleset in the namespace differs from the wanted table. For
// that, it lets nft load the text of the wanted table into a new namespace, and compares nft's
// listings of both namespaces.
func RequireLists(t testing.TB, ns *netns.NS, want *ruleset.Table) {
	t.Helper()
	other := nstest.New(t)
	nstest.NFT(t, other, want.String(), "-f", "-")
	require.Equal(t, Blocks(Listing(t, other)), Blocks(Listing(t, ns)))
}

// Blocks splits a listing into sets and chains and sorts these, because nft lists them in the order
// of creation.
func Blocks(listing string) []string {
	body := strings.TrimSuffix(listing, "}\n")
	var all []string
	for _, b := range strings.Split(body, "\n\n") {
		head, rest, found := strings.Cut(b, "{\n")
		if found && strings.HasPrefix(head, "table") {
			all = append(all, head)
			b = rest
		}
		all = append(all, strings.TrimSpace(b))
	}
	slices.Sort(all)
	return all
}

// AsListed changes a table so that its text equals nft's listing of the table. It returns the same
// table. Without the changes, the text and the listing differ in these ways:
//
//   - The listing may have elements in another order.
//   - The listing may have the matches on family and protocol at another place of the rule.
//   - If a rule matches ICMP, the listing has no match on the family. From nft 1.1 on, the same
//     holds for a rule that matches an original address of the connection.
//   - If a rule has an anonymous set with one element, the listing has this element alone, as a
//     single value.
func AsListed(t *ruleset.Table) *ruleset.Table {
	t.Normalize()
	for _, c := range t.Chains {
		for i := range c.Rules {
			ms := c.Rules[i].Matches
			for j, m := range ms {
				if in, ok := m.(ruleset.In); ok && len(in.Fields) == 1 && len(in.Elements) == 1 {
					e := in.Elements[0]
					ms[j] = ruleset.Compare{Field: in.Fields[0], Not: in.Not, Value: e.Key[0], Last: e.Last}
				}
			}
			// Matches have no effects, so their order does not matter.
			slices.SortStableFunc(ms, func(a, b ruleset.Match) int { return derived(a) - derived(b) })
			if len(ms) > 1 && derived(ms[0]) == 0 && (isICMP(ms[1]) || slices.ContainsFunc(ms, isOriginalAddress)) {
				ms = ms[1:]
			}
			c.Rules[i].Matches = ms
		}
	}
	return t
}

// derived returns the rank of a match in its rule: first the match on the family, then on the
// protocol, then others.
func derived(m ruleset.Match) int {
	c, ok := m.(ruleset.Compare)
	switch {
	case ok && c.Field == ruleset.NFProto:
		return 0
	case ok && c.Field == ruleset.L4Proto:
		return 1
	default:
		return 2
	}
}

// isICMP reports whether a match requires ICMP of either family.
func isICMP(m ruleset.Match) bool {
	c, ok := m.(ruleset.Compare)
	return ok && c.Field == ruleset.L4Proto && !c.Not && len(c.Value) == 1 && (c.Value[0] == 1 || c.Value[0] == 58)
}

// isOriginalAddress reports whether a match is on an original address of the connection, which
// implies its family.
func isOriginalAddress(m ruleset.Match) bool {
	c, ok := m.(ruleset.Compare)
	return ok && slices.Contains([]ruleset.Field{
		ruleset.CtOriginalSaddr, ruleset.CtOriginalDaddr, ruleset.CtOriginalSaddr6, ruleset.CtOriginalDaddr6,
	}, c.Field)
}
