// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// witness counts packets to port 10 that our table did not drop.
const witness = "table ip witness { chain in { type filter hook input priority 200; udp dport 10 counter; }; }"

// slow returns a table that delays packets by some milliseconds, in a base chain of a priority: it
// compares their ports 100,000 times.
func slow(priority int) string {
	return "table ip slow { chain compare { " + strings.Repeat("udp dport 11 drop; ", 200) + "}; " +
		fmt.Sprintf("chain out { type filter hook output priority %d; ", priority) +
		strings.Repeat("jump compare; ", 500) + "}; }"
}

// flood sends to port 10 until the returned function is called. That function returns how many
// packets were sent and how many passed. The first packet is sent before flood returns.
func flood(t *testing.T, ns *netns.NS) func() (sent, through int) {
	t.Helper()
	nft(t, ns, witness)
	begun, stop, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	sent := 0
	go func() {
		done <- ns.Do(func() error {
			conn, err := net.Dial("udp", "127.0.0.1:10")
			if err != nil {
				return err
			}
			defer conn.Close()
			for ; ; sent++ {
				select {
				case <-stop:
					return nil
				default:
				}
				if _, err := conn.Write([]byte("x")); err != nil && !errors.Is(err, unix.EPERM) && !isRefusedPort(err) {
					return err
				}
				if sent == 0 {
					close(begun)
				}
			}
		})
	}()
	select {
	case <-begun:
	case err := <-done:
		require.FailNow(t, "no packet was sent", "%v", err)
	}
	return func() (int, int) {
		close(stop)
		require.NoError(t, <-done)
		m := regexp.MustCompile(`counter packets (\d+)`).FindStringSubmatch(
			nft(t, ns, "", "list", "table", "ip", "witness"),
		)
		require.NotNil(t, m)
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		return sent, n
	}
}

// only returns a table that passes only packets to port 9: a base chain has the policy drop. It
// also has a set of many addresses.
func only(priority, many int) *ruleset.Table {
	t := &ruleset.Table{
		Name: tableName,
		Sets: []*ruleset.Set{{Name: "many", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: addresses(many)}},
		Chains: []*ruleset.Chain{{
			Name: "out", Hook: &ruleset.Hook{Point: ruleset.Output, Priority: priority, Policy: drop},
			Rules: []ruleset.Rule{rule(isUDP, is(ruleset.Dport, ruleset.Port(9)), accept)},
		}},
	}
	t.Normalize()
	return t
}

// A base chain that is replaced drops the packets that its policy forbids from its first moment.
func TestReplacedBaseChainDropsAtOnce(t *testing.T) {
	t.Run("made again", func(t *testing.T) {
		ns := nstest.New(t)
		a := open(t, ns)
		require.NoError(t, a.Apply(bg, only(0, 1)))
		end := flood(t, ns)
		for i := range 10 {
			require.NoError(t, a.Apply(bg, only(i%2+1, 10_000*((i+1)%2)+1)))
		}
		sent, through := end()
		require.NotZero(t, sent)
		require.Zero(t, through)
		nft(t, ns, "delete table ip witness")
		requireLists(t, ns, only(2, 1))
	})
	t.Run("new table", func(t *testing.T) {
		ns := nstest.New(t)
		a := open(t, ns)
		require.NoError(t, a.Apply(bg, only(0, 10_000)))
		end := flood(t, ns)
		for range 5 {
			b := open(t, ns)
			table := only(0, 10_000)
			table.Sets[0].Comment = "c"
			require.NoError(t, b.Apply(bg, table))
			require.NoError(t, open(t, ns).Apply(bg, only(0, 10_000)))
		}
		sent, through := end()
		require.NotZero(t, sent)
		require.Zero(t, through)
	})
}

var isUDP = is(ruleset.L4Proto, ruleset.Byte(17))

// tenBy returns a table that drops packets to port 10 by a rule, which may reference sets. It also
// has a set of many addresses.
func tenBy(many int, r ruleset.Rule, sets ...*ruleset.Set) *ruleset.Table {
	t := &ruleset.Table{
		Name: tableName,
		Sets: append(sets, &ruleset.Set{
			Name: "many", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: addresses(many),
		}),
		Chains: []*ruleset.Chain{
			base("out", ruleset.Output, rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: "ten"})), chain("ten", r),
		},
	}
	t.Normalize()
	return t
}

// moved is a table whose base chain has another priority.
func moved(t *ruleset.Table) *ruleset.Table {
	findChain(t, "out").Hook.Priority = 5
	return t
}

// reach is an element for ports 10 and 11 of the addresses from first to last.
func reach(first, last string) ruleset.Element {
	return ruleset.Element{
		Key: []ruleset.Value{addr(first), ruleset.Port(10)}, Ends: []ruleset.Value{addr(last), ruleset.Port(11)},
	}
}

// Packets see the elements of interval sets later than the rest of a transaction. No forbidden
// packet passes meanwhile.
func TestLateElements(t *testing.T) {
	plain := rule(isUDP, is(ruleset.Dport, ruleset.Port(10)), drop)
	both := []ruleset.Field{ruleset.IPDaddr, ruleset.Dport}
	lookup := rule(isIPv4, isUDP, ruleset.Lookup{Fields: both[:1], Set: "nets"}, drop)
	looksBoth := rule(isIPv4, isUDP, ruleset.Lookup{Fields: both, Set: "areas"}, drop)
	anonymous := rule(
		isIPv4, isUDP, ruleset.In{Fields: both, Elements: []ruleset.Element{reach("127.0.0.0", "127.0.0.255")}}, drop,
	)
	key := []ruleset.Type{ruleset.TypeIPv4}
	host := &ruleset.Set{Name: "nets", Key: key, Elements: []ruleset.Element{element(addr("127.0.0.1"))}}
	nets := func(s string) *ruleset.Set {
		return &ruleset.Set{Name: "nets", Key: key, Interval: true, Elements: []ruleset.Element{prefix(s)}}
	}
	areas := func(last string) *ruleset.Set {
		return &ruleset.Set{
			Name: "areas", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService}, Interval: true,
			Elements: []ruleset.Element{reach("127.0.0.0", last)},
		}
	}
	const many = 10_000
	for name, tables := range map[string][]*ruleset.Table{
		"new set":         {tenBy(1, plain), tenBy(many, lookup, nets("127.0.0.0/8"))},
		"new areas":       {tenBy(1, plain), tenBy(many, looksBoth, areas("127.0.0.255"))},
		"new value":       {tenBy(1, lookup, nets("127.0.0.0/8")), tenBy(many, lookup, nets("127.0.0.0/9"))},
		"new area":        {tenBy(1, looksBoth, areas("127.0.0.255")), tenBy(many, looksBoth, areas("127.0.255.255"))},
		"other type":      {tenBy(1, lookup, host), tenBy(many, lookup, nets("127.0.0.0/8"))},
		"anonymous areas": {tenBy(1, plain), tenBy(many, anonymous)},
		"other hook": {
			tenBy(1, looksBoth, areas("127.0.0.255")), moved(tenBy(many, looksBoth, areas("127.0.255.255"))),
		},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/restart=%v", name, restart), func(t *testing.T) {
				ns := nstest.New(t)
				a := open(t, ns)
				require.NoError(t, a.Apply(bg, tables[0]))
				end := flood(t, ns)
				for i := range 4 {
					if restart {
						a = open(t, ns)
					}
					require.NoError(t, a.Apply(bg, tables[(i+1)%2]))
				}
				sent, through := end()
				require.NotZero(t, sent)
				require.Zero(t, through)
				nft(t, ns, "delete table ip witness")
				requireLists(t, ns, tables[0])
			})
		}
	}
}

// A foreign chain drops while the sets change that it references, until its replacement is
// complete.
func TestForeignChainDropsDuringParts(t *testing.T) {
	ports := func(name string, from, to uint16, more ...ruleset.Rule) *ruleset.Table {
		s := &ruleset.Set{Name: "ports", Key: []ruleset.Type{ruleset.TypeService}}
		for p := from; p < to; p++ {
			s.Elements = append(s.Elements, element(ruleset.Port(p)))
		}
		lookup := rule(isUDP, ruleset.Lookup{Fields: []ruleset.Field{ruleset.Dport}, Set: "ports"}, drop)
		t := &ruleset.Table{Name: tableName, Sets: []*ruleset.Set{s}, Chains: []*ruleset.Chain{
			base(name, ruleset.Output, append(more, lookup)...),
		}}
		t.Normalize()
		return t
	}
	ns := nstest.New(t)
	require.NoError(t, open(t, ns).Apply(bg, ports("old", 10, 2000)))
	end := flood(t, ns)
	want := ports("new", 4000, 6000, rule(isUDP, is(ruleset.Dport, ruleset.Port(10)), drop))
	require.NoError(t, openWith(t, ns, applier.Config{Shared: true, MaxBatch: 4 << 10}).Apply(bg, want))
	sent, through := end()
	require.NotZero(t, sent)
	require.Zero(t, through)
	nft(t, ns, "delete table ip witness")
	requireLists(t, ns, want)
}

// Objects of earlier processes are removed, however many there are.
func TestManyLeftoversAreDeleted(t *testing.T) {
	ns := nstest.New(t)
	old := change(func(t *ruleset.Table) {
		t.Chains = append(t.Chains, chainsTable(300, 2).Chains...)
		for i := range 300 {
			t.Sets = append(t.Sets, &ruleset.Set{Name: fmt.Sprintf("left%d", i), Key: []ruleset.Type{ruleset.TypeIPv4}})
		}
	})
	require.NoError(t, open(t, ns).Apply(bg, old))
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	f.most = 4 << 10
	require.NoError(t, a.Apply(bg, sample()))
	requireLists(t, ns, sample())
}

// The chain at fault may not be the one that the kernel names: the kernel checks a chain when a
// base chain reaches it.
func TestIsolateChainThatKernelDoesNotName(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	broken := change(func(t *ruleset.Table) {
		findChain(t, "db").Rules = []ruleset.Rule{rule(ruleset.NAT{Kind: ruleset.Masquerade})} // not in a filter chain
	})
	requireHeld(t, a.Apply(bg, broken), applier.Object{Kind: "chain", Name: "db"}, "db")
	require.ErrorIs(t, a.Resync(bg), unix.EOPNOTSUPP)
	require.Contains(t, nft(t, ns, "", "list", "chain", "inet", "own", "db"), "drop comment \"held back")
	require.NoError(t, a.Apply(bg, sample()))
	requireLists(t, ns, sample())
}

// If a process ends between the transactions, no forbidden packet passes, and the next process
// removes the drop rules.
func TestNothingPassesIfProcessEndsWhileChainsDrop(t *testing.T) {
	nets := func(s string) *ruleset.Set { // A set with another comment replaces the set, and has no shadow.
		return &ruleset.Set{
			Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true, Comment: s,
			Elements: []ruleset.Element{prefix(s)},
		}
	}
	lookup := rule(isIPv4, isUDP, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPDaddr}, Set: "nets"}, drop)
	one, two := tenBy(1, lookup, nets("127.0.0.0/8")), tenBy(1000, lookup, nets("127.0.0.0/9"))
	for last := range 3 {
		ns := nstest.New(t)
		a, f := openFaulty(t, ns, applier.Config{Shared: true})
		require.NoError(t, a.Apply(bg, one))
		end := flood(t, ns)
		sent := 0
		f.refuse = func([]byte) unix.Errno {
			if sent++; sent > last {
				return unix.ENOMEM
			}
			return 0
		}
		require.ErrorIs(t, a.Apply(bg, two), unix.ENOMEM)
		if last > 0 {
			require.Contains(t, listing(t, ns), "being changed")
		}
		require.NoError(t, open(t, ns).Apply(bg, two))
		n, through := end()
		require.NotZero(t, n)
		require.Zero(t, through)
		nft(t, ns, "delete table ip witness")
		requireLists(t, ns, two)
	}
}
