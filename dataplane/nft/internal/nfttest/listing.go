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

// Listing returns the ruleset of the namespace, without counts and owners of tables.
func Listing(t testing.TB, ns *netns.NS) string {
	t.Helper()
	return nstest.WithoutOwner(nstest.NFT(t, ns, "", "-s", "list", "ruleset"))
}

// RequireLists requires that the namespace's table and one loaded from the table's text have the same
// listing.
func RequireLists(t testing.TB, ns *netns.NS, want *ruleset.Table) {
	t.Helper()
	other := nstest.New(t)
	nstest.NFT(t, other, want.String(), "-f", "-")
	require.Equal(t, Blocks(Listing(t, other)), Blocks(Listing(t, ns)))
}

// Blocks splits a listing into sets and chains, and sorts them: nft lists them in the order of creation.
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
