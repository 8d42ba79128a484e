// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// runNFT runs nft inside a namespace.
func runNFT(t *testing.T, ns *netns.NS, stdin string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		if os.Getenv("CI") == "true" {
			require.NoError(t, err)
		}
		t.Skip("needs the nft command (package nftables) to load the text with")
	}
	var out []byte
	require.NoError(t, ns.Do(func() error {
		cmd := exec.Command("nft", args...)
		cmd.Stdin = strings.NewReader(stdin)
		var err error
		out, err = cmd.CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, stdin)
		return nil
	}))
	return string(out)
}

// listing returns the sets and chains that a namespace has after these texts, sorted.
func listing(t *testing.T, texts ...string) []string {
	ns := nstest.New(t)
	for _, text := range texts {
		runNFT(t, ns, text, "-f", "-")
	}
	blocks := strings.Split(runNFT(t, ns, "", "-s", "list", "ruleset"), "\n\n")
	for i := range blocks {
		blocks[i] = strings.TrimRight(strings.TrimPrefix(blocks[i], "table inet sample {\n"), "}\t\n")
	}
	slices.Sort(blocks)
	return blocks
}

// TestDiffInKernel plays differences to nft that need more than adding and deleting.
func TestDiffInKernel(t *testing.T) {
	for name, change := range map[string]func(*ruleset.Table){
		"nothing":      func(*ruleset.Table) {},
		"set of a map": func(x *ruleset.Table) { x.Sets[0].Interval, x.Sets[0].Elements = false, x.Sets[0].Elements[1:2] },
		"range grows":  func(x *ruleset.Table) { x.Sets[0].Elements[2].Last = addr("10.0.0.20") },
		"range added":  func(x *ruleset.Table) { x.Sets[0].Elements = append(x.Sets[0].Elements, one(addr("10.0.0.12"))) },
		"element gone": func(x *ruleset.Table) { x.Sets[1].Elements = x.Sets[1].Elements[:1] },
		"verdict":      func(x *ruleset.Table) { x.Sets[2].Elements[0].Verdict.Kind = ruleset.Drop },
		"chain replaced": func(x *ruleset.Table) {
			x.Sets[2].Elements[1].Verdict.Chain = "third"
			x.Chains[1].Name = "third"
			x.Chains[0].Rules = x.Chains[0].Rules[:1]
		},
		"hook": func(x *ruleset.Table) { x.Chains[0].Hook.Priority = -150 },
		"becomes base": func(x *ruleset.Table) {
			x.Sets[2].Elements, x.Chains[0].Rules = x.Sets[2].Elements[:1], nil
			x.Chains[1].Hook = &ruleset.Hook{Point: ruleset.Input, Policy: verdict(ruleset.Accept)}
		},
		"less": func(x *ruleset.Table) { x.Sets, x.Chains = nil, x.Chains[:1]; x.Chains[0].Rules = nil },
	} {
		t.Run(name, func(t *testing.T) {
			old, changed := sample(), sample()
			change(changed)
			changed.Normalize()
			require.NoError(t, changed.Validate())
			for _, pair := range [][2]*ruleset.Table{{old, changed}, {changed, old}} {
				diff := ruleset.Diff(pair[0], pair[1])
				require.Equal(t, listing(t, pair[1].String()), listing(t, pair[0].String(), diff), diff)
			}
		})
	}
	require.Equal(t, "delete table inet sample\n", ruleset.Diff(sample(), nil))
	require.Equal(t, listing(t, sample().String()), listing(t, ruleset.Diff(nil, sample())))
	other := sample()
	other.Name = "other"
	require.Equal(t, listing(t, other.String()), listing(t, sample().String(), ruleset.Diff(sample(), other)))
	require.Equal(t, listing(t, sample().String()), listing(t, sample().String(), sample().ReplaceScript()))
}
