// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// TestKeywords: keywords of nft are not valid names. nft itself refuses them too.
func TestKeywords(t *testing.T) {
	ns := nstest.New(t)
	nstest.NFT(t, ns, "", "--version")
	for _, word := range strings.Fields(`auto-merge cgroup constant cpu dst dynamic ecn element esp expires export frag
		gc-interval hbh ibriport interval ll meter mh nftrace nh obriport obrname offload pkttype random rt rt0 rt2
		rtclassid skgid srh time`) {
		require.False(t, ruleset.ValidName(word), word)
		require.NoError(t, ns.Do(func() error {
			cmd := exec.Command("nft", "-c", "-f", "-")
			cmd.Stdin = strings.NewReader(
				"table inet x {\n set " + word + " { type ipv4_addr; }\n chain c { ip saddr @" + word +
					" drop\n }\n}\n",
			)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, word)
			require.Contains(t, string(out), "syntax error", word)
			return nil
		}))
	}
	require.True(t, ruleset.ValidName("neutral"))
}

// TestPriorityInKernel: the text has the priority of the model, in every family.
func TestPriorityInKernel(t *testing.T) {
	for _, family := range []ruleset.Family{
		ruleset.FamilyINet, ruleset.FamilyIPv4, ruleset.FamilyIPv6, ruleset.FamilyBridge,
	} {
		for priority, want := range map[int]string{0: "0", 3: "3", -10: "-10", -200: "-200", 11: "11"} {
			x := &ruleset.Table{Family: family, Name: "x", Chains: []*ruleset.Chain{
				{Name: "c", Hook: &ruleset.Hook{
					Point: ruleset.Input, Priority: priority, Policy: verdict(ruleset.Accept),
				}},
			}}
			for _, text := range []string{x.String(), script(t, nil, x)} {
				ns := nstest.New(t)
				nstest.NFT(t, ns, text, "-f", "-")
				require.Contains(t, nstest.NFT(t, ns, "", "-y", "list", "ruleset"), "priority "+want+";", "%s", text)
			}
		}
	}
}

// TestIfnamesInKernel: nft reads the same interface as the model, or refuses the text. It never
// reads another interface.
func TestIfnamesInKernel(t *testing.T) {
	for name, writes := range map[string][2]bool{ // as a name, as a prefix
		"eth0": {true, true}, `a"b`: {}, `a\`: {true, false}, `a\*`: {false, true}, "a*": {true, true}, "*": {
			true, true,
		}, "a*b": {true, true}, "a'b": {true, true},
	} {
		for i, v := range []ruleset.Value{ruleset.Ifname(name), ruleset.IfnamePrefix(name)} {
			x := &ruleset.Table{Name: "x", Chains: []*ruleset.Chain{{
				Name: "c", Rules: []ruleset.Rule{rule(verdict(ruleset.Drop), is(ruleset.IIFName, v))},
			}}}
			require.NoError(t, x.Validate())
			var out []byte
			var err error
			require.NoError(t, nstest.New(t).Do(func() error {
				cmd := exec.Command("nft", "--debug=netlink", "-f", "-")
				cmd.Stdin = strings.NewReader(x.String())
				out, err = cmd.CombinedOutput()
				return nil
			}))
			require.Equal(t, writes[i], err == nil, "%s: %s", x, out)
			if err == nil {
				require.Contains(t, string(out), "[ cmp eq reg 1 "+words(v)+" ]", "%s", x)
			}
		}
	}
}

// words returns a value as nft prints it: words of four bytes, the last one filled with zeros,
// lowest byte last.
func words(v ruleset.Value) string {
	var out []string
	for len(v) > 0 {
		word := "0x"
		for i := 3; i >= 0; i-- {
			b := byte(0)
			if i < len(v) {
				b = v[i]
			}
			word += string("0123456789abcdef"[b>>4]) + string("0123456789abcdef"[b&15])
		}
		out = append(out, word)
		v = v[min(4, len(v)):]
	}
	return strings.Join(out, " ")
}

// TestRangesInKernel: the kernel gets the ranges of the model, also if their ends have names, and
// beside bits.
func TestRangesInKernel(t *testing.T) {
	x := &ruleset.Table{Name: "sample", Sets: []*ruleset.Set{
		{
			Name: "bits", Key: []ruleset.Type{ruleset.TypeTCPFlag, ruleset.TypeService}, Interval: true,
			Elements: []ruleset.Element{
				{Key: values(ruleset.Byte(3), ruleset.Port(1)), Ends: values(ruleset.Byte(3), ruleset.Port(5))},
			},
		},
		{
			Name: "protos", Key: []ruleset.Type{ruleset.TypeProto}, Interval: true,
			Elements: []ruleset.Element{span(ruleset.Byte(6), ruleset.Byte(17))},
		},
	}, Chains: []*ruleset.Chain{{Name: "c", Rules: []ruleset.Rule{
		rule(verdict(ruleset.Drop), ruleset.Compare{
			Field: ruleset.L4Proto, Value: ruleset.Byte(6), Last: ruleset.Byte(17),
		}),
		rule(verdict(ruleset.Drop), ruleset.Compare{
			Field: ruleset.NFProto, Value: ruleset.Byte(2), Last: ruleset.Byte(10),
		}),
	}}}}
	require.NoError(t, x.Validate())
	require.Contains(t, x.String(), "{ fin|syn . 1-5 }")
	require.Contains(t, x.String(), "{ 6-17 }")
	require.Contains(t, x.String(), "meta l4proto 6-17 drop")
	nstest.NFT(t, nstest.New(t), x.String(), "-f", "-")
}
