// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// BenchmarkNewVariants measures the cost of the first packet of a flow with variants of the
// rendered table, beside only connection tracking. The rows are those of BenchmarkKnownVariants,
// and a host endpoint with policy for forwarded packets.
func BenchmarkNewVariants(b *testing.B) {
	pin(b)
	c := &comparison{}
	const most = 20_000
	for _, world := range []struct {
		name string
		judged
	}{
		{"in", judged{policies: 10}},
		{"out", judged{policies: 10, egress: true}},
		{"local", judged{policies: 10, local: true}},
		{"host", judged{policies: 10, host: forwarded}},
	} {
		programmed, _, _ := world.program(b, form{})
		text := nstest.WithoutOwner(nstest.NFT(b, programmed.node, "", "list", "table", "inet", "wayleave"))
		in, out := world.interfaces()
		for _, v := range newVariants(world.judged) {
			r := newRig(b, in, out)
			load(b, r.node, v.edit(b, text))
			burst := r.frames(r.client, rigFlows(most))
			c.add("new-"+world.name, v.name, "ns", func(b *testing.B) float64 {
				defer r.resetConntrack(b)
				return float64(r.volley(b, burst, most)) / most
			})
		}
	}
	c.run(b, sized(25, 3))
}

func newVariants(w judged) []knownVariant {
	conntrack := func(testing.TB, string) string { return baselines()[1].table }
	rendered := func(_ testing.TB, table string) string { return table }
	return []knownVariant{
		{"conntrack", conntrack},
		{"rendered", rendered},
		{"after-ending", besideLate},
		{"by-hand", func(tb testing.TB, table string) string { return byHand(tb, w, table) }},
		{"without-again", withoutAgain},
		{"without-known", withoutKnown},
		{"state-looked-up", lookUpState},
		{"state-masked", maskState},
		{"class-set-once", setClassOnce},
		{"one-map", oneMap},
		{"all", func(tb testing.TB, table string) string {
			return oneMap(tb, setClassOnce(tb, withoutKnown(tb, withoutAgain(tb, table))))
		}},
	}
}

// withoutKnown removes the rules for packets of known connections from the base chains.
func withoutKnown(_ testing.TB, table string) string {
	return regexp.MustCompile(`(?m)^\t\tct state == established .* accept\n`).ReplaceAllString(table, "")
}

// maskState tests states by their bits instead of comparing them.
func maskState(_ testing.TB, table string) string {
	return strings.NewReplacer("ct state == ", "ct state ", "ct state != ", "ct state ! ").Replace(table)
}

// lookUpState looks up the state of each connection, also of new ones.
func lookUpState(tb testing.TB, table string) string {
	const compare = "ct state != new ct state vmap"
	require.Contains(tb, table, compare)
	return strings.ReplaceAll(table, compare, "ct state vmap")
}

// setClassOnce removes the rules that set the priority to zero before the class is looked up.
func setClassOnce(_ testing.TB, table string) string {
	return regexp.MustCompile(`(chain \S*classify-\S+ \{\n)\t\tmeta priority set none\n`).ReplaceAllString(table, "$1")
}

// oneMap maps classes to chains, instead of classes to outcomes and outcomes to chains.
func oneMap(tb testing.TB, table string) string {
	for _, m := range regexp.MustCompile(`chain group-(\w+)/(\S+) \{`).FindAllStringSubmatch(table, -1) {
		direction, group := m[1], m[2]
		if !strings.Contains(table, "map gc-"+group+" {") {
			continue
		}
		remove := func(set string) {
			table = regexp.MustCompile(`(?s)\tmap `+set+` \{.*?\n\t\}\n`).ReplaceAllString(table, "")
		}
		own := strings.Contains(table, "map go-"+group+" {") // of a host endpoint
		outcomes := "outcomes-" + direction
		if own {
			outcomes = "go-" + group
		}
		chains := map[string]string{}
		for _, e := range elementsOf(tb, table, outcomes) {
			outcome, chain, _ := strings.Cut(e, " : ")
			chains[outcome] = strings.Replace(chain, "jump", "goto", 1)
		}
		var direct []string
		for _, e := range elementsOf(tb, table, "gc-"+group) {
			class, outcome, _ := strings.Cut(e, " : ")
			direct = append(direct, class+" : "+chains[outcome])
		}
		lookup := regexp.MustCompile(`meta priority set meta priority map @gc-` + group + `( return)?`)
		table = lookup.ReplaceAllString(table, "meta priority vmap { "+strings.Join(direct, ", ")+" }")
		remove("gc-" + group)
		if own {
			table = strings.Replace(table, "\t\tmeta priority vmap @"+outcomes+"\n", "", 1)
			remove(outcomes)
		}
	}
	return table
}

// elementsOf returns the elements of a set in the text of a table.
func elementsOf(tb testing.TB, table, set string) (elements []string) {
	tb.Helper()
	m := regexp.MustCompile(`(?s) ` + set + ` \{.*?elements = \{(.*?)\}`).FindStringSubmatch(table)
	require.NotNil(tb, m, set)
	for e := range strings.SplitSeq(m[1], ",") {
		elements = append(elements, strings.TrimSpace(e))
	}
	return elements
}

// byHand returns the smallest table that makes the same lookups for a new flow: interface, state,
// class, outcome and port. It has no epoch, and checks neither sources nor interfaces.
func byHand(tb testing.TB, w judged, table string) string {
	tb.Helper()
	field, address := "oifname", "ip saddr"
	if w.egress || w.host != none {
		field = "iifname"
	}
	if w.egress {
		address = "ip daddr"
	}
	iface := map[bool]string{false: "way1", true: "eth1"}[w.host != none]
	classes := elementsOf(tb, table, "class4")
	var clients []string
	addr := rigClient()
	for range rigSources + 1 {
		clients = append(clients, addr.String())
		addr = addr.Next()
	}
	if w.egress {
		clients = []string{rigServer().String()}
	}
	i := slices.IndexFunc(classes, func(e string) bool { return isAnyOf(e, clients) })
	require.GreaterOrEqual(tb, i, 0)
	_, class, _ := strings.Cut(classes[i], " : ")
	return fmt.Sprintf(`table inet wayleave {
	map class4 {
		type ipv4_addr : classid
		elements = { %s }
	}
	chain classes {
		meta priority set %s map @class4
		meta priority vmap { %s : goto ports, 1:1 : drop }
		drop
	}
	chain ports {
		udp dport { %d, %d } accept
		drop
	}
	chain forward {
		type filter hook forward priority filter; policy accept;
		ct state vmap { established : accept, related : accept, invalid : drop }
		%s vmap { %q : goto classes }
	}
}
`, strings.Join(classes, ", "), address, class, rigUDP, rigMarker, field, iface)
}

func isAnyOf(element string, addrs []string) bool {
	addr, _, _ := strings.Cut(element, " : ")
	_, err := netip.ParseAddr(addr)
	return err == nil && slices.Contains(addrs, addr)
}
