// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/late"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// BenchmarkKnownVariants measures the cost of a packet of an established flow with variants of the
// rendered table, beside only connection tracking. The rows are the packet's directions: in from
// outside, out from a workload, and local between two workloads.
func BenchmarkKnownVariants(b *testing.B) {
	pin(b)
	c := &comparison{}
	for _, world := range []struct {
		name string
		judged
	}{
		{"in", judged{policies: 10}},
		{"out", judged{policies: 10, egress: true}},
		{"local", judged{policies: 10, local: true}},
	} {
		programmed, _, _ := world.program(b, form{})
		text := nstest.WithoutOwner(nstest.NFT(b, programmed.node, "", "list", "table", "inet", "wayleave"))
		in, out := world.interfaces()
		rigs := offloads(b, world.judged)
		for _, v := range knownVariants() {
			r := newRig(b, in, out)
			load(b, r.node, v.edit(b, text))
			rigs[v.name] = r
		}
		for _, name := range slices.Sorted(maps.Keys(rigs)) {
			r := rigs[name]
			burst := r.frames(r.client, slices.Repeat(rigFlows(1), 20_000))
			c.add("known-"+world.name, name, "ns", func(b *testing.B) float64 {
				defer r.resetConntrack(b)
				r.establish(b, burst, rigServer().Next())
				return float64(r.volley(b, burst, len(burst.list))) / float64(len(burst.list))
			})
		}
	}
	c.run(b, sized(25, 3))
}

// knownVariant is an edit of the text of a table.
type knownVariant struct {
	name string
	edit func(tb testing.TB, table string) string
}

func knownVariants() []knownVariant {
	return []knownVariant{
		{"conntrack", func(testing.TB, string) string { return baselines()[1].table }},
		{"rendered", func(_ testing.TB, table string) string { return table }},
		{"after-ending", besideLate},
		{"without-again", withoutAgain},
		{"accept-first", acceptKnown},
		{"accept-first-without-again", func(tb testing.TB, table string) string {
			return acceptKnown(tb, withoutAgain(tb, table))
		}},
	}
}

// besideLate adds the table that drops late packets of ended connections, without elements for
// these flows.
func besideLate(_ testing.TB, table string) string { return table + late.Rules("wayleave").String() }

// withoutAgain removes the base chains that evaluate stale packets.
func withoutAgain(_ testing.TB, table string) string {
	return regexp.MustCompile(`(?s)\tchain \S+-again \{.*?\n\t\}\n`).ReplaceAllString(table, "")
}

// acceptKnown adds a rule that accepts all known packets without any other check.
func acceptKnown(tb testing.TB, table string) string {
	const hook = "hook forward priority filter - 10; policy accept;\n"
	head, tail, ok := strings.Cut(table, hook)
	require.True(tb, ok, table)
	return head + hook + "\t\tct state established accept\n" + tail
}
