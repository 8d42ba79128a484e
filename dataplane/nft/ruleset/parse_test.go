// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// goldens returns the texts of rendered tables.
func goldens(t testing.TB) []string {
	files, err := filepath.Glob("../render/testdata/golden/*/*.nft")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	texts := make([]string, len(files))
	for i, file := range files {
		texts[i] = read(t, file)
	}
	return texts
}

func read(t testing.TB, file string) string {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// parse returns the table of a text. The table's own text must parse to an equal table.
func parse(t testing.TB, text string) *ruleset.Table {
	t.Helper()
	table, err := ruleset.Parse(text)
	require.NoError(t, err)
	again, err := ruleset.Parse(table.String())
	require.NoError(t, err)
	require.True(t, table.Equal(again), table.String())
	return table
}

// TestParseGoldens: the text of each rendered table parses to a table with this text, and a state
// of it.
func TestParseGoldens(t *testing.T) {
	for _, text := range goldens(t) {
		table := parse(t, text)
		require.Equal(t, text, table.String())
		state, err := ruleset.StateOf(table)
		require.NoError(t, err)
		require.True(t, state.Table().Equal(parse(t, text)))
	}
}

// TestParseRandom: random tables are parsed back from their texts, and Parse never panics on a part
// of a text.
func TestParseRandom(t *testing.T) {
	for seed := range uint64(100) {
		m := maker{rand.New(rand.NewPCG(seed, 11))}
		state := ruleset.NewState(ruleset.FamilyINet, "sample")
		change, err := state.Prepare(m.first())
		if err != nil {
			continue
		}
		state.Commit(change)
		text := state.Table().String()
		require.Equal(t, text, parse(t, text).String(), "seed %d", seed)
		_, err = ruleset.Parse(text[:m.IntN(len(text)-2)])
		require.Error(t, err, "seed %d", seed)
	}
}

// withoutRaw deletes the rules with expressions of Raw.
func withoutRaw(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "meta cpu") && !strings.Contains(line, "meta nftrace") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// TestParseWide: a text with every part of the model equals the text of the parsed table. The
// listing that nft makes of this text parses to the same table.
func TestParseWide(t *testing.T) {
	text := withoutRaw(read(t, "testdata/wide.nft"))
	tables, err := ruleset.ParseTables(text)
	require.NoError(t, err)
	listed, err := ruleset.ParseTables(withoutRaw(read(t, "testdata/wide-listed.nft")))
	require.NoError(t, err)
	require.Len(t, listed, len(tables))
	again := ""
	for i, table := range tables {
		require.NoError(t, table.Validate())
		again += table.String()
		require.Equal(t, nfttest.AsListed(table).String(), nfttest.AsListed(listed[i]).String())
		require.True(t, table.Equal(listed[i]))
	}
	// nft derives the match on the family that wide.nft lacks.
	text = strings.Replace(text, "\tmeta mark set ip saddr", "\tmeta nfproto ipv4 meta mark set ip saddr", 1)
	require.Equal(t, text, again)
}

// TestParseValues: values that a program made are parsed back from their text.
func TestParseValues(t *testing.T) {
	require.Equal(t, sample().String(), parse(t, sample().String()).String())
	forwards := forwards(forward(80, "10.0.0.1:8080"))
	require.True(t, forwards.Equal(parse(t, forwards.String())))
}

// ruleTexts returns rules as nft 1.0.6 lists them, or as a user would write them: the family, the
// rule, and its text if it differs.
func ruleTexts() [][3]string {
	return [][3]string{
		{"bridge", `icmp type 8 drop`, ``},
		{"bridge", `udp dport 53 drop`, ``},
		{"bridge", `meta protocol ip6 icmp type 8 drop`, `meta protocol 0x86dd icmp type 8 drop`},
		{"ip", `meta l4proto tcp th dport 1 reject with tcp reset`, `tcp dport 1 reject with tcp reset`},
		{"ip6", `icmpv6 type 128 drop`, ``},
		{"inet", `icmpv6 code 1 ip6 saddr fd00::1 drop`, ``},
		{"inet", `icmpv6 type . icmpv6 code { 1 . 2 } drop`, ``},
		{
			"inet", `iifname . ip saddr . th dport { "a" . 10.0.0.1 . 3 } drop`,
			`meta nfproto ipv4 iifname . ip saddr . th dport { "a" . 10.0.0.1 . 3 } drop`,
		},
		{"inet", `ct original ip saddr 10.0.0.1 drop`, ``},
		{"inet", `tcp flags ! syn,ack drop`, ``},
		{"inet", `tcp flags != syn | ack drop`, `tcp flags != syn|ack drop`},
		{"inet", `ct status dnat ct status ! snat ct status != dnat drop`, ``},
		{"inet", `tcp sport != 1 tcp dport != 2-2 drop`, ``},
		{"inet", `meta priority set none accept`, ``},
		{"inet", `meta priority set 10 accept`, `meta priority set 0:a accept`},
		{"inet", `ct mark set ct mark & 0xff | 0x100`, `ct mark set ct mark & 0x000000ff | 0x00000100`},
		{"inet", `exthdr frag exists drop`, ``},
		{"inet", `th dport 53 drop`, ``},
		{"inet", `meta l4proto { icmp } icmp type 8 accept`, ``},
		{"inet", `meta l4proto icmp icmp type 8 accept`, ``},
		{"inet", `meta l4proto icmp icmp type . icmp code { 3 . 4 } accept`, ``},
		{"inet", `meta l4proto icmpv6 icmpv6 code != 1 accept`, ``},
		{"inet", `meta nfproto ipv4 meta l4proto icmp icmp type 8 accept`, `icmp type 8 accept`},
		{"bridge", `meta l4proto icmp icmp type 8 drop`, ``},
		{"inet", `meta nfproto { ipv6 } tcp sport { 22 } reject`, ``},
		{"inet", `ct state new ip saddr 10.0.0.1 tcp dport 1 meta l4proto tcp ip daddr 10.0.0.2 tcp sport 2 drop`, ``},
		{"inet", `iifname eth0 accept`, `iifname "eth0" accept`},
		{"inet", `meta iifname way* oifname "e\*" drop`, `iifname "way*" oifname "e\*" drop`},
		{"inet", `ct state established, related accept`, `ct state established,related accept`},
		{"inet", `ct state { established, related } accept # handle 7`, `ct state { established, related } accept`},
		{"inet", `ct state == established | new accept`, `ct state == established|new accept`},
		{"inet", `ct state != established accept`, ``},
		{
			"inet", `ct state vmap { invalid: drop, established: accept }`,
			`ct state vmap { invalid : drop, established : accept }`,
		},
		{
			"inet", `tcp dport { 22, 80-90, 443 } counter packets 17 bytes 1020 accept`,
			`tcp dport { 22, 80-90, 443 } counter accept`,
		},
		{
			"inet", `tcp dport 22 counter packets 0 bytes 0 log prefix "ssh: " group 2 drop comment "no ssh"`,
			`tcp dport 22 counter log prefix "ssh: " group 2 drop comment "no ssh"`,
		},
		{"inet", `tcp flags & (fin | syn | rst | ack) == syn drop`, `tcp flags & (fin|syn|rst|ack) == (syn) drop`},
		{"inet", `tcp flags & syn == syn drop`, `tcp flags & (syn) == (syn) drop`},
		{"inet", `tcp flags syn / fin,syn,rst,ack drop`, `tcp flags & (fin|syn|rst|ack) == (syn) drop`},
		{"inet", `tcp flags != syn / syn,ack drop`, `tcp flags & (syn|ack) != (syn) drop`},
		{"inet", `udp dport 53 udp sport != 53 drop`, ``},
		{"inet", `meta l4proto udp th dport 53 drop`, `udp dport 53 drop`},
		{"inet", `meta l4proto { tcp, udp } th dport 53 drop`, ``},
		{"inet", `meta l4proto gre drop`, `meta l4proto 47 drop`},
		{"inet", `ip saddr 10.0.0.0/8 ip daddr 10.0.0.1-10.0.0.9 drop`, ``},
		{"inet", `ip saddr != { 10.0.0.0/8, 192.168.0.0/16 } drop`, ``},
		{"inet", `ip saddr 10.0.0.1/32 drop`, `ip saddr 10.0.0.1 drop`},
		{
			"inet", `ip saddr . tcp dport { 10.0.0.1 . 80, 10.0.0.2 . 443 } drop`,
			`meta nfproto ipv4 meta l4proto tcp ip saddr . th dport { 10.0.0.1 . 80, 10.0.0.2 . 443 } drop`,
		},
		{"inet", `meta nfproto ipv6 icmp type echo-request drop`, `meta nfproto ipv6 icmp type 8 drop`},
		{"inet", `icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept`, `icmpv6 type { 135, 136 } accept`},
		{"inet", `icmp type destination-unreachable icmp code frag-needed accept`, `icmp type 3 icmp code 4 accept`},
		{"inet", `ip dscp ef accept`, `ip dscp 46 accept`},
		{"inet", `ip6 dscp != 0x03-0x09 accept`, `ip6 dscp != 3-9 accept`},
		{"inet", `meta mark 0x12 accept`, `meta mark 0x00000012 accept`},
		{"inet", `meta mark & 0xff == 5 accept`, `meta mark & 0x000000ff == 0x00000005 accept`},
		{"inet", `meta priority & c000:0 == c000:0 return`, `meta priority & 0xc0000000 == 0xc0000000 return`},
		{"inet", `meta priority none accept`, ``},
		{"inet", `meta priority root accept`, `meta priority ffff:ffff accept`},
		{"inet", `meta protocol arp accept`, `meta protocol 0x0806 accept`},
		{"inet", `meta mark set meta mark | 0x1`, `meta mark set meta mark & 0xfffffffe | 0x00000001`},
		{"inet", `meta mark set meta mark & 0xffff12ff | 0x1200`, `meta mark set meta mark & 0xffff00ff | 0x00001200`},
		{"inet", `meta mark set ip saddr map @marks`, `meta nfproto ipv4 meta mark set ip saddr map @marks`},
		{"inet", `ct mark set meta mark`, ``},
		{"inet", `tcp dport vmap { 22 : jump ssh, 80 : goto web }`, ``},
		{"inet", `tcp dport vmap @verdicts`, ``},
		{"inet", `fib daddr type local accept`, ``},
		{"inet", `limit rate 10/second burst 5 packets accept`, `limit rate 10/second accept`},
		{"inet", `limit rate over 3/hour burst 9 packets drop`, ``},
		{"inet", `counter reject with tcp reset`, `meta l4proto tcp counter reject with tcp reset`},
		{"inet", `reject with icmpx type host-unreachable`, `reject with icmpx 2`},
		{"inet", `tcp dport 80 dnat ip6 to [fd00::1]:8080-8090`, ``},
		{"inet", `snat ip6 to fd00::1`, ``},
		{"inet", `tcp dport 80 redirect to :8080`, ``},
		{"inet", `masquerade`, ``},
		{"inet", "ip saddr { 10.0.0.1,\n 10.0.0.2, } \\\n accept", `ip saddr { 10.0.0.1, 10.0.0.2 } accept`},
		{"ip", `ip saddr 10.0.0.1 icmp type 8 dnat to 10.0.0.2`, ``},
		{"ip", `tcp dport 8 dnat ip to 10.0.0.2:80`, `tcp dport 8 dnat to 10.0.0.2:80`},
		{"ip6", `ip6 saddr fd00::/8 tcp dport 1-9 dnat to [fd00::1]:80`, ``},
		{"bridge", `meta protocol ip ip saddr 10.0.0.1 drop`, `ip saddr 10.0.0.1 drop`},
		{"bridge", `ip6 saddr fd00::1 tcp dport 80 drop`, ``},
	}
}

// otherRuleTexts returns rules as other versions of nft list them, and rules whose text is simpler.
func otherRuleTexts() [][3]string {
	return [][3]string{
		{"inet", `meta mark set meta mark & 0 | 7`, `meta mark set 0x00000007`},
		{"inet", `fib saddr . iif check missing drop`, `fib saddr . iif oif missing drop`},
		{
			"inet", `dnat ip addr . port to ip daddr . tcp dport map @targets`,
			`meta nfproto ipv4 meta l4proto tcp dnat ip to ip daddr . th dport map @targets`,
		},
	}
}

// ruleTable returns the text of a table with the rule, and with the objects to which rules refer.
func ruleTable(family, rule string) string {
	return "table " + family + ` t {
	map marks {
		type ipv4_addr : mark
	}

	map targets {
		type ipv4_addr . inet_service : ipv4_addr . inet_service
	}

	map verdicts {
		type inet_service : verdict
	}

	chain c {
		` + rule + `
	}

	chain ssh {
	}

	chain web {
	}
}
`
}

// TestParseRules: each rule parses, and has the expected text.
func TestParseRules(t *testing.T) {
	for _, c := range append(ruleTexts(), otherRuleTexts()...) {
		table := parse(t, ruleTable(c[0], c[1]))
		require.NoError(t, table.Validate())
		require.Equal(t, ruleTable(c[0], cmp.Or(c[2], c[1])), table.String())
	}
}

// written has tables as a user would write them, and as later versions of nft list them.
const written = `#!/usr/sbin/nft -f
# The firewall of a host.
table inet filter { # progname wayleave # handle 12
	flags owner,persist
	set blocked { type ipv4_addr; flags interval; auto-merge; elements = { 192.0.2.0/24, 198.51.100.7 } }
	set seen { # handle 3
		typeof ip saddr . tcp dport
		size 65535
		flags timeout
		counter
		timeout 1h
		gc-interval 90s
		comment "seen # lately"
		elements = { 10.0.0.1 . 80 counter packets 3 bytes 180 timeout 10m expires 9m59s996ms comment "x",
			     10.0.0.2 . 443 counter packets 0 bytes 0 expires 3m }
	}
	map ways { typeof iifname : verdict; elements = { eth0 : accept, "e\*": jump other } }
	map where { typeof ip daddr : ip daddr . th dport; }

	chain in {
		type filter hook input priority filter - 10; policy drop;
		iifname lo accept; ct state established,related accept
		ip saddr @blocked drop
	}
	chain out { type filter hook output priority mangle + 1; }
	chain other {
	}
}

table other { chain pre { type nat hook prerouting priority dstnat; policy accept; } }
table bridge b {
	flags
	chain pre { type filter hook prerouting priority dstnat; policy accept; }
}
`

// printed is the text of these tables.
const printed = `table inet filter {
	set blocked {
		type ipv4_addr
		flags interval
		elements = { 192.0.2.0/24,
			     198.51.100.7 }
	}

	set seen {
		type ipv4_addr . inet_service
		size 65535
		flags timeout
		counter
		timeout 1h
		gc-interval 1m30s
		comment "seen # lately"
		elements = { 10.0.0.1 . 80 timeout 10m comment "x",
			     10.0.0.2 . 443 }
	}

	map ways {
		type ifname : verdict
		elements = { "e\*" : jump other,
			     "eth0" : accept }
	}

	map where {
		type ipv4_addr : ipv4_addr . inet_service
	}

	chain in {
		type filter hook input priority filter - 10; policy drop;
		iifname "lo" accept
		ct state established,related accept
		ip saddr @blocked drop
	}

	chain other {
	}

	chain out {
		type filter hook output priority -149; policy accept;
	}
}
table ip other {
	chain pre {
		type nat hook prerouting priority -100; policy accept;
	}
}
table bridge b {
	chain pre {
		type filter hook prerouting priority -300; policy accept;
	}
}
`

func TestParseTables(t *testing.T) {
	tables, err := ruleset.ParseTables(written)
	require.NoError(t, err)
	text := ""
	for _, table := range tables {
		table.Normalize()
		require.NoError(t, table.Validate())
		text += table.String()
	}
	require.Equal(t, printed, text)
	tables, err = ruleset.ParseTables("")
	require.NoError(t, err)
	require.Empty(t, tables)
}

// seeds returns blocks of the goldens as small tables, one of each kind of rule and set: Go's
// fuzzer is slow with large inputs.
func seeds(t testing.TB) []string {
	var all []string
	known := map[string]bool{}
	for _, text := range append(goldens(t), withoutRaw(read(t, "testdata/wide-listed.nft"))) {
		for block := range strings.SplitSeq(text, "\n\n") {
			kind := ""
			for line := range strings.Lines(block) {
				words := append(strings.Fields(line), "", "")
				kind += words[0] + " " + words[1] + "\n"
			}
			_, kind, _ = strings.Cut(kind, "\n")
			if len(block) > 500 || known[kind] || strings.Contains(block, "table") {
				continue
			}
			known[kind] = true
			all = append(all, "table inet t {\n"+block+"\n}\n")
		}
	}
	return all
}

// FuzzParse: the text of a parsed table parses to an equal table, and nothing panics.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds(f) {
		f.Add(seed)
	}
	for _, c := range append(ruleTexts(), otherRuleTexts()...) {
		f.Add("table " + c[0] + " t {\nchain c {\n" + c[1] + "\n}\n}\n")
	}
	bad, _ := badTexts(f)
	for _, text := range bad {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		table, err := ruleset.Parse(text)
		if err != nil {
			require.Nil(t, table)
			require.IsType(t, &ruleset.ParseError{}, err)
			return
		}
		_ = table.Validate()
		again, err := ruleset.Parse(table.String())
		require.NoError(t, err, table.String())
		require.True(t, table.Equal(again), table.String())
	})
}
