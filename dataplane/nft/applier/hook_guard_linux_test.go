// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// replacement is a table, and another one with a base chain that replaces its base chain. Both
// block port 10.
type replacement struct {
	priority int // the priority of the slow chain
	one, two *ruleset.Table
	adopted  bool // the next process makes the change
}

func replacements() map[string]replacement {
	blocks := rule(isUDP, is(ruleset.Dport, ruleset.Port(10)), drop)
	other := rule(isUDP, is(ruleset.Dport, ruleset.Port(99)), drop)
	edit := func(t *ruleset.Table, change func(out *ruleset.Chain)) *ruleset.Table {
		change(findChain(t, "out"))
		t.Normalize()
		return t
	}
	byMap := func(comment string) *ruleset.Table {
		verdicts := &ruleset.Set{
			Name: "verdicts", Comment: comment, Verdicts: true, Key: []ruleset.Type{ruleset.TypeService},
			Elements: []ruleset.Element{to(ruleset.Drop, "", ruleset.Port(10))},
		}
		return tenBy(1, rule(isUDP, ruleset.VMap{Fields: []ruleset.Field{ruleset.Dport}, Map: "verdicts"}), verdicts)
	}
	lookup := func(name, net string) *ruleset.Table {
		lookup := rule(isIPv4, isUDP, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPDaddr}, Set: "nets"}, accept)
		nets := &ruleset.Set{
			Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true,
			Elements: []ruleset.Element{prefix(net)},
		}
		t := tenBy(1, blocks, nets)
		findChain(t, "ten").Rules = append(findChain(t, "ten").Rules, lookup)
		return edit(t, func(out *ruleset.Chain) {
			out.Name = name
			for i := range 300 { // so that the kernel needs some time
				out.Rules = append(out.Rules, rule(isUDP, is(ruleset.Dport, ruleset.Port(uint16(1000+i))), drop))
			}
		})
	}
	takesOver := tenBy(1, blocks)
	late := base("late", ruleset.Output, findChain(takesOver, "out").Rules...)
	late.Hook.Priority = 5
	takesOver.Chains = append(takesOver.Chains, late)
	return map[string]replacement{
		"table": {one: byMap("a"), two: byMap("b"), adopted: true},
		"moved, and its target changes": {
			one: tenBy(1, blocks),
			two: edit(moved(tenBy(1, other)), func(out *ruleset.Chain) {
				out.Rules = append([]ruleset.Rule{blocks}, out.Rules...)
			}),
		},
		"renamed, and its target changes": {
			one: tenBy(1, blocks),
			two: edit(tenBy(1, other), func(out *ruleset.Chain) {
				out.Name, out.Rules = "exit", append([]ruleset.Rule{blocks}, out.Rules...)
			}),
		},
		"renamed, with shadows": {one: lookup("out", "10.0.0.0/8"), two: lookup("exit", "11.0.0.0/8")},
		"taken over": {
			priority: 3, one: tenBy(1, blocks), adopted: true,
			two: edit(takesOver, func(out *ruleset.Chain) { out.Rules = nil }),
		},
	}
}

// The kernel puts a new base chain before others of the same priority. A packet may pass the new
// chain while it has no rules yet, and reach the place of the old chain when that is deleted. A
// packet that waits before the old chain may use it after the chains that it jumps to have changed.
// Here a slow base chain of another table delays every packet.
func TestNoDeniedPacketPassesWhileBaseChainIsReplaced(t *testing.T) {
	shared := applier.Config{Shared: true}
	withoutOwners := func(t testing.TB, ns *netns.NS) *applier.Applier {
		a, _ := openWithoutOwners(t, ns, shared)
		return a
	}
	for name, c := range replacements() {
		for process, open := range map[string]func(testing.TB, *netns.NS) *applier.Applier{
			"same process": open, "next process": open, "next process without owners": withoutOwners,
		} {
			if process == "same process" && c.adopted {
				continue
			}
			t.Run(name+"/"+process, func(t *testing.T) {
				ns := nstest.New(t)
				a := open(t, ns)
				require.NoError(t, a.Apply(bg, c.one))
				end := flood(t, ns)
				for i := range 10 {
					nft(t, ns, slow(c.priority))
					if process != "same process" {
						a = open(t, ns)
					}
					require.NoError(t, a.Apply(bg, []*ruleset.Table{c.two, c.one}[i%2]))
					nft(t, ns, "delete table ip slow")
				}
				sent, through := end()
				require.NotZero(t, sent)
				require.Zero(t, through)
				nft(t, ns, "delete table ip witness")
				requireLists(t, ns, c.one)
			})
		}
	}
}

// onlyDeletes reports whether a transaction deletes a table and adds none.
func onlyDeletes(batch []byte) bool {
	messages := messagesOf(batch)
	return slices.Contains(messages, unix.NFT_MSG_DELTABLE) && !slices.Contains(messages, unix.NFT_MSG_NEWTABLE)
}

// refusing returns a hook that refuses matching transactions, up to the given number of times.
func refusing(times int, which func(batch []byte) bool) func([]byte) unix.Errno {
	return func(batch []byte) unix.Errno {
		if times == 0 || !which(batch) {
			return 0
		}
		times--
		return unix.ENOMEM
	}
}

// If the kernel refuses to delete the guard, the next attempt deletes it. If the process ends
// first, the kernel deletes it, or the next process if the table has no owner. Otherwise its
// elements expire.
func TestGuardIsDeletedLater(t *testing.T) {
	changed := moved(only(0, 1))
	for name, c := range map[string]struct {
		open func(testing.TB, *netns.NS, applier.Config) (*applier.Applier, *faulty)
		next func(*testing.T, *netns.NS, *applier.Applier) error
	}{
		"next call": {openFaulty, resync},
		"end":       {openFaulty, closeAndApply},
		"teardown":  {openFaulty, tearDownAndApply},

		"next call, without owners": {openWithoutOwners, resync},
		"end, without owners":       {openWithoutOwners, closeAndApply},
		"teardown, without owners":  {openWithoutOwners, tearDownAndApply},
	} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a, f := c.open(t, ns, applier.Config{Shared: true})
			require.NoError(t, a.Apply(bg, only(0, 1)))
			f.refuse = refusing(1000, onlyDeletes)
			require.ErrorIs(t, a.Apply(bg, changed), unix.ENOMEM)
			require.Contains(t, listing(t, ns), "own-guard")
			guard := nft(t, ns, "", "list", "table", "inet", "own-guard")
			require.Contains(t, guard, "timeout 10s expires")
			require.Contains(t, guard, "hook output priority filter + 1;", "after the replaced chain")
			f.refuse = nil
			require.NoError(t, c.next(t, ns, a))
			requireLists(t, ns, changed)
		})
	}
}

func resync(_ *testing.T, _ *netns.NS, a *applier.Applier) error { return a.Resync(bg) }

// closeAndApply ends a process. Before Linux 5.12, the next one deletes the guard.
func closeAndApply(t *testing.T, ns *netns.NS, a *applier.Applier) error {
	require.NoError(t, a.Close())
	if !strings.Contains(listing(t, ns), "own-guard") {
		return nil
	}
	next, _ := openWithoutOwners(t, ns, applier.Config{Shared: true})
	return next.Apply(bg, moved(only(0, 1)))
}

func tearDownAndApply(_ *testing.T, _ *netns.NS, a *applier.Applier) error {
	return errors.Join(a.Teardown(bg), a.Apply(bg, moved(only(0, 1))))
}

// The guard is deleted if one of its transactions fails, or the step after it.
func TestGuardIsDeletedAfterOneFailure(t *testing.T) {
	changed := moved(only(0, 1))
	for name, c := range map[string]struct {
		config applier.Config
		fail   func(*faulty)
		want   *ruleset.Table
	}{
		"deletion refused": {
			applier.Config{Shared: true}, func(f *faulty) { f.refuse = refusing(1, onlyDeletes) }, changed,
		},
		"deletion refused after an upgrade": {
			applier.Config{}, func(f *faulty) { f.refuse = refusing(1, onlyDeletes) }, only(0, 1),
		},
		"answer lost": {applier.Config{Shared: true}, func(f *faulty) {
			lost := refusing(1, func(batch []byte) bool {
				return slices.Contains(messagesOf(batch), unix.NFT_MSG_NEWCHAIN)
			})
			f.lose = func(batch []byte) bool { return lost(batch) != 0 }
		}, changed},
		"step after the guard refused": {applier.Config{}, func(f *faulty) {
			f.refuse = refusing(1, func(batch []byte) bool {
				messages := messagesOf(batch)
				return slices.Contains(messages, unix.NFT_MSG_DELRULE) && !slices.Contains(
					messages, unix.NFT_MSG_DELTABLE,
				)
			})
		}, only(0, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			require.NoError(t, open(t, ns).Apply(bg, only(0, 1)))
			a, f := openFaulty(t, ns, c.config)
			if c.config.Shared {
				require.NoError(t, a.Apply(bg, only(0, 1)))
			}
			c.fail(f)
			_ = a.Apply(bg, c.want) // may fail
			require.NoError(t, a.Resync(bg))
			requireLists(t, ns, c.want)
		})
	}
}

// A table of another process with the guard's name stays, whether the guard was never added or the
// answer to its transaction was lost. The log names the table.
func TestForeignTableWithNameOfGuardStays(t *testing.T) {
	const theirs = "table inet own-guard { chain theirs { counter; }; }"
	errClosed, changed := errors.New("closed"), moved(only(0, 1))
	guards := func(batch []byte) bool { return bytes.Contains(batch, []byte("own-guard")) }
	refused := func(*faulty, *error) {}
	unwritten := func(_ *faulty, closed *error) { *closed = errClosed }
	unanswered := func(f *faulty, _ *error) { f.lose = guards }
	for name, c := range map[string]struct {
		open func(testing.TB, *netns.NS, applier.Config) (*applier.Applier, *faulty)
		fail func(f *faulty, closed *error)
	}{
		"kernel refuses the guard":                 {openFaulty, refused},
		"kernel refuses the guard, without owners": {openWithoutOwners, refused},
		"BeforeWrite fails":                        {openFaulty, unwritten},
		"BeforeWrite fails, without owners":        {openWithoutOwners, unwritten},
		"answer lost":                              {openFaulty, unanswered},
		"answer lost, without owners":              {openWithoutOwners, unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			var log bytes.Buffer
			var closed error
			a, f := c.open(t, ns, applier.Config{
				Shared: true, BeforeWrite: func() error { return closed },
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.NoError(t, a.Apply(bg, only(0, 1)))
			nft(t, ns, theirs)
			c.fail(f, &closed)
			err := a.Apply(bg, changed)
			if closed != nil {
				require.ErrorIs(t, err, errClosed)
			}
			closed, f.lose = nil, nil
			require.NoError(t, a.Resync(bg))
			require.Contains(t, nft(t, ns, "", "list", "table", "inet", "own-guard"), "chain theirs")
			require.Contains(t, log.String(), "table=own-guard")
			nft(t, ns, "delete table inet own-guard")
			requireLists(t, ns, changed)
		})
	}
}

// A table with the guard's name that another process owns stays, and does not stop later changes.
func TestOwnedTableWithNameOfGuardStays(t *testing.T) {
	skipUnlessOwnable(t)
	ns := nstest.New(t)
	changed := moved(only(0, 1))
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	require.NoError(t, a.Apply(bg, only(0, 1)))
	other := openWith(t, ns, applier.Config{Name: "own-guard"})
	theirs := &ruleset.Table{Name: "own-guard", Chains: []*ruleset.Chain{chain("theirs", rule(ruleset.Counter{}))}}
	require.NoError(t, other.Apply(bg, theirs))
	f.lose = func(batch []byte) bool { return bytes.Contains(batch, []byte("own-guard")) }
	_ = a.Apply(bg, changed) // may fail
	f.lose = nil
	require.NoError(t, a.Resync(bg))
	require.Contains(t, nft(t, ns, "", "list", "table", "inet", "own-guard"), "chain theirs")
	require.NoError(t, other.Teardown(bg))
	requireLists(t, ns, changed)
}
