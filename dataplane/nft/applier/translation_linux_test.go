// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// translated is a table that translates the destination 192.0.2.1 to an address, and 192.0.2.2 to
// another one. An empty address means no translation.
func translated(t testing.TB, first, second string) *ruleset.Table {
	t.Helper()
	translation := testTranslation()
	m := &ruleset.Set{
		Name: translation.Map, Key: []ruleset.Type{ruleset.TypeIPv4}, Data: []ruleset.Type{ruleset.TypeIPv4},
	}
	for i, to := range []string{first, second} {
		if to != "" {
			m.Elements = append(m.Elements, ruleset.Element{
				Key: []ruleset.Value{addr([]string{"192.0.2.1", "192.0.2.2"}[i])}, Data: []ruleset.Value{addr(to)},
			})
		}
	}
	table := sample()
	if len(m.Elements) > 0 {
		hook := &ruleset.Hook{Type: ruleset.HookNAT, Point: ruleset.Prerouting, Priority: -99, Policy: accept}
		table.Sets = append(table.Sets, m)
		table.Chains = append(table.Chains, &ruleset.Chain{Name: "translate", Hook: hook, Rules: []ruleset.Rule{{
			Matches: translation.Matches,
			Statements: []ruleset.Statement{ruleset.NAT{
				Kind: ruleset.DNAT, Family: ruleset.FamilyIPv4, Fields: translation.Fields, Map: translation.Map,
			}},
		}}})
	}
	return table
}

func testTranslation() ruleset.Translation {
	return ruleset.Translation{
		Map: "targets", Matches: []ruleset.Match{is(ruleset.NFProto, ruleset.Byte(ruleset.NFProtoIPv4))},
		Fields: []ruleset.Field{ruleset.IPDaddr},
	}
}

// New connections to an address drop while its translation changes, and no others. Afterwards the
// table has no guard. A change of anything else needs no guard.
func TestNewConnectionsDropWhileTranslationChanges(t *testing.T) {
	const a, b, c = "10.7.0.1", "10.7.0.2", "10.7.0.3"
	for _, test := range []struct {
		name          string
		before, after [2]string
		restart       bool
		keys          []string
	}{
		{name: "replaced", before: [2]string{a, b}, after: [2]string{c, b}, keys: []string{"192.0.2.1"}},
		{name: "removed", before: [2]string{a, b}, after: [2]string{a, ""}, keys: []string{"192.0.2.2"}},
		{name: "added", before: [2]string{a, ""}, after: [2]string{a, b}, keys: []string{"192.0.2.2"}},
		{name: "the first", after: [2]string{a, b}, keys: []string{"192.0.2.1", "192.0.2.2"}},
		{name: "the last", before: [2]string{a, b}, keys: []string{"192.0.2.1", "192.0.2.2"}},
		{name: "the same", before: [2]string{a, b}, after: [2]string{a, b}},
		{
			name: "replaced, by the next process", before: [2]string{a, b}, after: [2]string{c, b}, restart: true,
			keys: []string{"192.0.2.1"},
		},
		{
			name: "the last, by the next process", before: [2]string{a, b}, restart: true,
			keys: []string{"192.0.2.1", "192.0.2.2"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns := nstest.New(t)
			cfg := applier.Config{Shared: true, Translations: []ruleset.Translation{testTranslation()}}
			ap := openWith(t, ns, cfg)
			require.NoError(t, ap.Apply(bg, translated(t, test.before[0], test.before[1])))
			if test.restart {
				require.NoError(t, ap.Close())
				ap = openWith(t, ns, cfg)
			}
			var during []string
			applier.SetSynchronize(ap, func() error {
				during = append(during, listing(t, ns))
				return nil
			})
			want := translated(t, test.after[0], test.after[1])
			findChain(want, "db").Rules = []ruleset.Rule{rule(drop, "changed")}
			require.NoError(t, ap.Apply(bg, want))
			requireLists(t, ns, want)
			if len(test.keys) == 0 {
				require.Empty(t, during)
				return
			}
			require.NotEmpty(t, during)
			require.Contains(t, during[0], "elements = { "+strings.Join(test.keys, ", ")+" }")
			require.NotContains(t, during[0], `"changed"`)
			for _, hook := range []string{"prerouting", "output"} {
				require.Regexp(t, "type nat hook "+hook+" priority (dstnat|-100); policy accept;\n\t+"+
					`ip daddr @shadow-\d+ drop`, during[0])
			}
		})
	}
}

// If the kernel refuses the guard, the change is made without it.
func TestRefusedGuardDoesNotStopChange(t *testing.T) {
	ns := nstest.New(t)
	ap, f := openFaulty(t, ns, applier.Config{Shared: true, Translations: []ruleset.Translation{testTranslation()}})
	require.NoError(t, ap.Apply(bg, translated(t, "10.7.0.1", "")))
	refused := 0
	f.refuse = func(batch []byte) unix.Errno {
		if slices.Contains(messagesOf(batch), unix.NFT_MSG_NEWSET) {
			refused++
			return unix.EOPNOTSUPP
		}
		return 0
	}
	want := translated(t, "10.7.0.2", "")
	require.NoError(t, ap.Apply(bg, want))
	require.Equal(t, 1, refused)
	requireLists(t, ns, want)
}

// A Translation needs a map and fields.
func TestTranslationMustBeWhole(t *testing.T) {
	_, err := applier.New(applier.Config{Name: tableName, Translations: []ruleset.Translation{{Map: "targets"}}})
	require.ErrorContains(t, err, "applier: Config.Translations: Map and Fields: required")
}

// New connections to all translated addresses drop while a table without an owner is replaced, even
// if no translation changes.
func TestNewConnectionsDropWhileTableIsReplaced(t *testing.T) {
	ns := nstest.New(t)
	table := translated(t, "10.7.0.1", "10.7.0.2")
	former := openWith(t, ns, applier.Config{Shared: true})
	require.NoError(t, former.Apply(bg, table))
	require.NoError(t, former.Close())
	ap := openWith(t, ns, applier.Config{Translations: []ruleset.Translation{testTranslation()}})
	var during []string
	applier.SetSynchronize(ap, func() error {
		during = append(during, listing(t, ns))
		return nil
	})
	require.NoError(t, ap.Apply(bg, table))
	nstest.SkipUnlessOwned(t, ap.Stats().Owned)
	require.Len(t, during, 3)
	for priority, text := range map[string]string{
		"(dstnat - 1|-101)": during[0], "(dstnat|-100)": during[2],
	} {
		require.Contains(t, text, "elements = { 192.0.2.1, 192.0.2.2 }")
		require.Regexp(t, "type nat hook prerouting priority "+priority+"; policy accept;\n\t+"+
			`ip daddr @shadow-\d+ drop`, text)
	}
	requireLists(t, ns, table)
}

// If the kernel refuses the change of a translation, the guard is deleted: new connections drop
// only during the attempt.
func TestGuardOfRefusedTranslationGoes(t *testing.T) {
	ns := nstest.New(t)
	ap, f := openFaulty(t, ns, applier.Config{Shared: true, Translations: []ruleset.Translation{testTranslation()}})
	before := translated(t, "10.7.0.1", "")
	require.NoError(t, ap.Apply(bg, before))
	guards := 0
	f.refuse = func(batch []byte) unix.Errno {
		if messageWith(batch, unix.NFT_MSG_NEWSETELEM, "targets") != 0 {
			return unix.ENOSPC
		}
		if messageWith(batch, unix.NFT_MSG_NEWSET, "shadow-1") != 0 {
			guards++
		}
		return 0
	}
	require.ErrorIs(t, ap.Apply(bg, translated(t, "10.7.0.2", "")), unix.ENOSPC)
	require.NotZero(t, guards)
	requireLists(t, ns, before)
}
