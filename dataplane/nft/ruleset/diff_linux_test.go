// SPDX-License-Identifier: Apache-2.0

package ruleset_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// listing returns the sets and chains of a namespace after it has loaded these texts, sorted.
func listing(t *testing.T, texts ...string) []string {
	ns := nstest.New(t)
	for _, text := range texts {
		nstest.NFT(t, ns, text, "-f", "-")
	}
	return blocksOf(nstest.NFT(t, ns, "", "-s", "list", "ruleset"))
}

// canonical sorts the elements of each set: nft lists some in the order of their
// creation, or in none.
func canonical(listing string) string {
	return regexp.MustCompile(`\{ [^{}]* \}`).ReplaceAllStringFunc(listing, func(list string) string {
		elements := strings.Split(list[2:len(list)-2], ",")
		for i := range elements {
			elements[i] = strings.TrimSpace(elements[i])
		}
		slices.Sort(elements)
		return "{ " + strings.Join(elements, ", ") + " }"
	})
}

// blocksOf splits a listing into its sets and chains, sorted: nft lists them in the order of their
// creation.
func blocksOf(listing string) []string {
	blocks := strings.Split(canonical(listing), "\n\n")
	for i := range blocks {
		blocks[i] = strings.TrimRight(strings.TrimPrefix(blocks[i], "table inet sample {\n"), "}\t\n")
	}
	slices.Sort(blocks)
	return blocks
}

// script returns the difference as nft loads it.
func script(t *testing.T, old, new *ruleset.Table) string {
	t.Helper()
	ops, err := ruleset.Diff(old, new)
	require.NoError(t, err)
	return ruleset.Script(ops)
}

// TestDiffInKernel loads differences with nft that need more than adding and deleting.
func TestDiffInKernel(t *testing.T) {
	for name, change := range map[string]func(*ruleset.Table){
		"nothing": func(*ruleset.Table) {},
		"set of a map": func(x *ruleset.Table) {
			x.Sets[0].Interval, x.Sets[0].Elements = false, x.Sets[0].Elements[1:2]
		},
		"range grows": func(x *ruleset.Table) { x.Sets[0].Elements[2].Last = addr("10.0.0.20") },
		"range added": func(x *ruleset.Table) {
			x.Sets[0].Elements = append(x.Sets[0].Elements, one(addr("10.0.0.12")))
		},
		"element gone": func(x *ruleset.Table) { x.Sets[1].Elements = x.Sets[1].Elements[:1] },
		"verdict":      func(x *ruleset.Table) { x.Sets[2].Elements[0].Verdict.Kind = ruleset.Drop },
		"chain replaced": func(x *ruleset.Table) {
			x.Sets[2].Elements[1].Verdict.Chain = "third"
			x.Chains[1].Name = "third"
			x.Chains[0].Rules = x.Chains[0].Rules[:1]
		},
		"hook":   func(x *ruleset.Table) { x.Chains[0].Hook.Priority = -150 },
		"policy": func(x *ruleset.Table) { x.Chains[0].Hook.Policy.Kind = ruleset.Accept },
		"policy and rules": func(x *ruleset.Table) {
			x.Chains[0].Hook.Policy.Kind, x.Chains[0].Rules = ruleset.Accept, x.Chains[0].Rules[:1]
		},
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
				diff := script(t, pair[0], pair[1])
				require.Equal(t, listing(t, pair[1].String()), listing(t, pair[0].String(), diff), diff)
			}
		})
	}
	require.Equal(t, "delete table inet sample\n", script(t, sample(), nil))
	require.Equal(t, listing(t, sample().String()), listing(t, script(t, nil, sample())))
	other := sample()
	other.Name = "other"
	require.Equal(t, listing(t, other.String()), listing(t, sample().String(), script(t, sample(), other)))
	require.Equal(t, listing(t, sample().String()), listing(t, sample().String(), sample().ReplaceScript()))
}

// TestPolicyInPlace: a base chain gets another policy without a replacement, so its rules keep
// their counters.
func TestPolicyInPlace(t *testing.T) {
	ns := nstest.New(t)
	nstest.NFT(t, ns, sample().String()+"add rule inet sample base counter packets 7 bytes 70", "-f", "-")
	for _, to := range []ruleset.VerdictKind{ruleset.Accept, ruleset.Drop} {
		old, changed := sample(), sample()
		old.Chains[0].Hook.Policy.Kind = ruleset.Accept + ruleset.Drop - to
		changed.Chains[0].Hook.Policy.Kind = to
		diff := script(t, old, changed)
		require.Equal(t, "chain inet sample base { policy "+verdict(to).String()+"; }\n", diff)
		nstest.NFT(t, ns, diff, "-f", "-")
		chain := nstest.NFT(t, ns, "", "list", "chain", "inet", "sample", "base")
		require.Contains(t, chain, "policy "+verdict(to).String()+";")
		require.Contains(t, chain, "counter packets 7 bytes 70")
	}
}

// TestPolicyOrder: policies become drop before any other change, and accept after all but
// deletions.
func TestPolicyOrder(t *testing.T) {
	changed := sample()
	changed.Sets = append(changed.Sets, &ruleset.Set{Name: "more", Key: []ruleset.Type{ruleset.TypeIPv4}})
	changed.Chains[0].Hook.Policy.Kind = ruleset.Accept
	changed.Chains[0].Rules = changed.Chains[0].Rules[:1]
	kinds := func(old, new *ruleset.Table) []ruleset.OpKind {
		ops, err := ruleset.Diff(old, new)
		require.NoError(t, err)
		var all []ruleset.OpKind
		for _, op := range ops {
			all = append(all, op.Kind)
		}
		return slices.Compact(all)
	}
	require.Equal(
		t, []ruleset.OpKind{ruleset.AddSet, ruleset.DeleteRule, ruleset.ChangePolicy}, kinds(sample(), changed),
	)
	require.Equal(
		t, []ruleset.OpKind{ruleset.ChangePolicy, ruleset.InsertRule, ruleset.DeleteSet}, kinds(changed, sample()),
	)
}
