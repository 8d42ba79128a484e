// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func addrs(list ...string) (parsed []netip.Addr) {
	for _, s := range list {
		parsed = append(parsed, netip.MustParseAddr(s))
	}
	return parsed
}

// list returns the ruleset of a namespace, without counters.
func list(t testing.TB, ns *netns.NS) string {
	t.Helper()
	return nstest.WithoutOwner(nstest.NFT(t, ns, "", "-s", "list", "ruleset"))
}

// load loads a text with nft -f.
func load(t testing.TB, ns *netns.NS, text string) {
	t.Helper()
	nstest.NFT(t, ns, text, "-f", "-")
}

// loadTable loads a table's text with nft -f, in parts: an ordinary user's nft cannot send a large
// transaction.
func loadTable(t testing.TB, ns *netns.NS, table *ruleset.Table) {
	t.Helper()
	heads := &ruleset.Table{Family: table.Family, Name: table.Name}
	parts := []*ruleset.Table{heads}
	for _, s := range table.Sets {
		head := *s
		head.Elements = nil
		heads.Sets = append(heads.Sets, &head)
		parts = append(parts, &ruleset.Table{Family: table.Family, Name: table.Name, Sets: []*ruleset.Set{s}})
	}
	for chains := range slices.Chunk(table.Chains, 50) {
		for _, c := range chains {
			heads.Chains = append(heads.Chains, &ruleset.Chain{Name: c.Name, Hook: c.Hook})
		}
		parts = append(parts, &ruleset.Table{Family: table.Family, Name: table.Name, Chains: chains})
	}
	for _, part := range parts {
		load(t, ns, part.String())
	}
}

// write programs a table with the Applier.
func write(ns *netns.NS, table *ruleset.Table) error {
	a, err := applier.New(applier.Config{Name: table.Name, NetNS: ns.FD()})
	if err != nil {
		return err
	}
	return errors.Join(a.Apply(context.Background(), table), a.Close())
}

// generation returns the generation of the ruleset in a namespace.
func generation(t testing.TB, ns *netns.NS) uint32 {
	t.Helper()
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	g, err := conn.Generation()
	require.NoError(t, err)
	return g
}

// runIP runs ip inside a namespace.
func runIP(t testing.TB, ns *netns.NS, args ...string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
		return nil
	}))
}

// blocks splits a listing into its sets and chains, sorted, because nft lists them in order of
// creation.
func blocks(listing string) []string {
	out := strings.Split(listing, "\n\n")
	for i := range out {
		out[i] = strings.TrimSuffix(strings.TrimPrefix(out[i], "table inet wayleave {\n"), "\n}\n")
	}
	slices.Sort(out)
	return out
}
