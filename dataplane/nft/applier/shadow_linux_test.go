// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"bytes"
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
	"github.com/wayleave/wayleave/internal/netlink"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// aroundOutput counts packets to ports 10 and 11 before our table and behind it.
const aroundOutput = `table ip around {
	chain before {
		type filter hook output priority -200
		udp dport 10 counter comment "sent 10"
		udp dport 11 counter comment "sent 11"
	}
	chain behind {
		type filter hook output priority 200
		udp dport 10 counter comment "passed 10"
		udp dport 11 counter comment "passed 11"
	}
}`

// traffic sends to ports 10 and 11 in turn until the returned function is called. That function
// returns how many packets to port 10 passed, and how many to port 11 were lost.
func traffic(t *testing.T, ns *netns.NS) func() (leaked, lost int) {
	t.Helper()
	nft(t, ns, aroundOutput)
	begun, stop, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- ns.Do(func() error {
			var conns []net.Conn
			for _, to := range []string{"127.0.0.1:10", "127.0.0.1:11"} {
				conn, err := net.Dial("udp", to)
				if err != nil {
					return err
				}
				defer conn.Close()
				conns = append(conns, conn)
			}
			for n := 0; ; n++ {
				if n == 10 {
					close(begun)
				}
				select {
				case <-stop:
					return nil
				default:
				}
				_, err := conns[n%2].Write([]byte("x"))
				if err != nil && !errors.Is(err, unix.EPERM) && !isRefusedPort(err) {
					return err
				}
			}
		})
	}()
	select {
	case <-begun:
	case err := <-done:
		require.NoError(t, err)
	}
	return func() (int, int) {
		close(stop)
		require.NoError(t, <-done)
		list := nft(t, ns, "", "list", "table", "ip", "around")
		count := func(what string) int {
			m := regexp.MustCompile(`counter packets (\d+) bytes \d+ comment "` + what + `"`).FindStringSubmatch(list)
			require.NotNil(t, m, list)
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			return n
		}
		nft(t, ns, "delete table ip around")
		require.NotZero(t, count("sent 11"))
		t.Logf("%d packets sent", count("sent 10")+count("sent 11"))
		return count("passed 10"), count("sent 11") - count("passed 11")
	}
}

// through is a table that drops packets to this machine, except to port 11, by an interval set, a
// map or both. Each version has other prefixes, addresses and rules.
func through(version, many int) *ruleset.Table {
	nets := &ruleset.Set{
		Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true,
		Elements: append(intervals(many), prefix(fmt.Sprintf("127.0.0.0/%d", 8+version))),
	}
	service := []ruleset.Type{ruleset.TypeService}
	ports := &ruleset.Set{Name: "ports", Key: service, Interval: true, Verdicts: true, Elements: []ruleset.Element{
		{
			Key: []ruleset.Value{ruleset.Port(11)}, Last: ruleset.Port(uint16(12 + version)),
			Verdict: &ruleset.Verdict{Kind: ruleset.Jump, Chain: "eleven"},
		},
	}}
	marks := &ruleset.Set{
		Name: "marks", Key: []ruleset.Type{ruleset.TypeIPv4}, Data: []ruleset.Type{ruleset.TypeMark}, Interval: true,
	}
	marks.Elements = []ruleset.Element{prefix(fmt.Sprintf("127.0.0.0/%d", 16+version))}
	marks.Elements[0].Data = []ruleset.Value{ruleset.Uint32(uint32(7 + version))}
	t := &ruleset.Table{
		Name: tableName,
		Sets: []*ruleset.Set{nets, ports, marks, {
			Name: "many", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: addresses(1 + version*many),
		}},
		Chains: []*ruleset.Chain{
			base("out", ruleset.Output, rule(isIPv4, isUDP, ruleset.Verdict{Kind: ruleset.Jump, Chain: "sorted"})),
			chain("sorted",
				rule(isIPv4, ruleset.Assign{
					Field: ruleset.Mark, Fields: []ruleset.Field{ruleset.IPDaddr}, Map: "marks",
				}),
				rule(ruleset.VMap{Fields: []ruleset.Field{ruleset.Dport}, Map: "ports"}),
				rule(isIPv4, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPDaddr}, Set: "nets"}, drop)),
			chain("eleven", rule(is(ruleset.Mark, ruleset.Uint32(uint32(7+version))), accept), rule(drop)),
		},
	}
	t.Normalize()
	return t
}

// S173: while interval sets and maps change with rules and addresses, no packet passes that both
// states forbid, and none is lost that both allow. It holds for one transaction and for many.
func TestShadows(t *testing.T) {
	for _, limit := range []int{0, 8 << 10} {
		for _, many := range []int{1, 1000} {
			t.Run(fmt.Sprintf("limit=%d/many=%d", limit, many), func(t *testing.T) {
				ns := nstest.New(t)
				a := openWith(t, ns, applier.Config{MaxBatch: limit})
				require.NoError(t, a.Apply(bg, through(0, many)))
				end := traffic(t, ns)
				for i := range 20 {
					require.NoError(t, a.Apply(bg, through((i+1)%2, many)))
				}
				leaked, lost := end()
				require.Zero(t, leaked)
				require.Zero(t, lost)
				requireLists(t, ns, through(0, many))
			})
		}
	}
}

// S173 also holds if base chains are added, deleted or get another policy, and for so many chains
// that handles are not echoed.
func TestShadowsOfBaseChains(t *testing.T) {
	eleven := rule(isUDP, is(ruleset.Dport, ruleset.Port(11)), accept)
	lookup := rule(
		isIPv4, isUDP, is(ruleset.Dport, ruleset.Port(10)),
		ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPDaddr}, Set: "nets"}, drop,
	)
	for name, edit := range map[string]func(t *ruleset.Table, version int){
		"base chain": func(t *ruleset.Table, version int) {
			if version == 1 {
				guard := base("guard", ruleset.Output, lookup, eleven)
				guard.Hook.Priority, guard.Hook.Policy = 5, drop
				t.Chains = append(t.Chains, guard)
			}
		},
		"policy": func(t *ruleset.Table, version int) {
			out := findChain(t, "out")
			if out.Rules = []ruleset.Rule{lookup}; version == 1 {
				out.Rules, out.Hook.Policy = []ruleset.Rule{lookup, eleven}, drop
			}
		},
		"many chains": func(t *ruleset.Table, version int) {
			for i := range 200 {
				t.Chains = append(t.Chains, chain(fmt.Sprintf("other%d", i), lookup))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := func(version int) *ruleset.Table {
				table := through(version, 20)
				edit(table, version)
				table.Normalize()
				return table
			}
			ns := nstest.New(t)
			a, f := openFaulty(t, ns, applier.Config{Shared: true})
			require.NoError(t, a.Apply(bg, state(0)))
			shadows, _ := seen(f)
			end := traffic(t, ns)
			for i := range 20 {
				require.NoError(t, a.Apply(bg, state((i+1)%2)))
			}
			require.EqualValues(t, 1, a.Stats().Readings)
			leaked, lost := end()
			require.Zero(t, leaked)
			require.Zero(t, lost)
			require.True(t, *shadows)
			requireLists(t, ns, state(0))
		})
	}
}

// S173 also holds if a process ends between any two transactions, and the next process continues.
// It also holds if the kernel refuses all transactions from one on, and the same process retries.
func TestShadowsInterrupted(t *testing.T) {
	const steps = 6
	for _, restart := range []bool{false, true} {
		for last := range steps {
			t.Run(fmt.Sprintf("restart=%v/after=%d", restart, last), func(t *testing.T) {
				ns := nstest.New(t)
				a, f := openFaulty(t, ns, applier.Config{Shared: true})
				require.NoError(t, a.Apply(bg, through(0, 10)))
				end := traffic(t, ns)
				sent := 0
				f.refuse = func([]byte) unix.Errno {
					if sent++; sent > last {
						return unix.ENOMEM
					}
					return 0
				}
				if last < steps-1 {
					require.ErrorIs(t, a.Apply(bg, through(1, 10)), unix.ENOMEM)
				} else {
					require.NoError(t, a.Apply(bg, through(1, 10)))
				}
				require.Equal(t, 0 < last && last < steps-1, bytes.Contains([]byte(listing(t, ns)), []byte("shadow-")))
				f.refuse = nil
				if restart {
					a = open(t, ns)
					require.NoError(t, a.Apply(bg, through(1, 10)))
				}
				require.NoError(t, a.Resync(bg))
				leaked, lost := end()
				require.Zero(t, leaked)
				require.Zero(t, lost)
				requireLists(t, ns, through(1, 10))
			})
		}
	}
}

// Unchanged rules keep their counters when a change uses shadows.
func TestShadowsKeepCounters(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	state := func(version int) *ruleset.Table {
		table := through(version, 1)
		c := findChain(table, "sorted")
		c.Rules = append([]ruleset.Rule{rule(ruleset.Counter{}, "all")}, c.Rules...)
		return table
	}
	require.NoError(t, a.Apply(bg, state(0)))
	end := traffic(t, ns)
	_, _ = end()
	counted := func() string {
		return regexp.MustCompile(`counter packets [1-9]\d* bytes \d+ comment "all"`).FindString(
			nft(t, ns, "", "list", "chain", "inet", tableName, "sorted"),
		)
	}
	before := counted()
	require.NotEmpty(t, before)
	require.NoError(t, a.Apply(bg, state(1)))
	require.Equal(t, before, counted())
}

// seen records whether transactions have shadows, and whether they make chains drop.
func seen(f *faulty) (shadows, guarded *bool) {
	shadows, guarded = new(bool), new(bool)
	f.refuse = func(batch []byte) unix.Errno {
		*shadows = *shadows || bytes.Contains(batch, []byte("shadow-"))
		*guarded = *guarded || bytes.Contains(batch, []byte("being changed"))
		return 0
	}
	return shadows, guarded
}

// Changes that packets see at one moment are one transaction: of rules and addresses, of only one
// interval set, and of one for each family.
func TestSimpleChangeIsOneTransaction(t *testing.T) {
	six := func(bits int) *ruleset.Set {
		return &ruleset.Set{
			Name: "six", Key: []ruleset.Type{ruleset.TypeIPv6}, Interval: true,
			Elements: []ruleset.Element{prefix(fmt.Sprintf("2001:db8::/%d", bits))},
		}
	}
	first := change(func(t *ruleset.Table) { t.Sets = append(t.Sets, six(32)) })
	for name, edit := range map[string]func(*ruleset.Table){
		"rules and addresses": func(t *ruleset.Table) {
			findSet(t, "hosts").Elements = addresses(100)
			findChain(t, "db").Rules = findChain(t, "db").Rules[1:]
		},
		"one interval set": func(t *ruleset.Table) { findSet(t, "nets").Elements = intervals(1000) },
		"one of a family": func(t *ruleset.Table) {
			findSet(t, "nets").Elements = intervals(1000)
			*findSet(t, "six") = *six(48)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a := open(t, ns)
			require.NoError(t, a.Apply(bg, first))
			before := a.Stats().Transactions
			second := change(func(t *ruleset.Table) {
				t.Sets = append(t.Sets, six(32))
				edit(t)
			})
			require.NoError(t, a.Apply(bg, second))
			if name != "one of a family" || !applier.MixesIntervals(a) {
				require.Equal(t, before+1, a.Stats().Transactions)
			}
			requireLists(t, ns, second)
		})
	}
}

// S173: packets see a change of one interval set at one moment, however many of its elements are
// added and deleted. This holds for keys with one field and for keys with several. The change is
// one transaction. On an older kernel, which would miss overlapping elements meanwhile, it uses
// shadows.
func TestIntervalSetChangesAtOnce(t *testing.T) {
	both := []ruleset.Field{ruleset.IPDaddr, ruleset.Dport}
	states := map[string]func(version int) *ruleset.Table{
		"one field": func(version int) *ruleset.Table {
			s := &ruleset.Set{Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true}
			s.Elements = append(
				intervals(20_000)[version*10_000:][:10_000], prefix(fmt.Sprintf("127.0.0.0/%d", 8+version)),
			)
			return tenBy(1, rule(isIPv4, isUDP, ruleset.Lookup{Fields: both[:1], Set: "nets"}, drop), s)
		},
		"one field, first address": func(version int) *ruleset.Table {
			s := &ruleset.Set{Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true}
			s.Elements = append(
				intervals(20_000)[version*10_000:][:10_000], prefix([]string{"126.0.0.0/7", "127.0.0.0/8"}[version]),
			)
			return tenBy(1, rule(isIPv4, isUDP, ruleset.Lookup{Fields: both[:1], Set: "nets"}, drop), s)
		},
		"two fields": func(version int) *ruleset.Table {
			s := &ruleset.Set{Name: "areas", Key: []ruleset.Type{ruleset.TypeIPv4, ruleset.TypeService}, Interval: true}
			for i := range 300 {
				first := fmt.Sprintf("10.%d.%d.0", version, i%256)
				s.Elements = append(s.Elements, ruleset.Element{Key: []ruleset.Value{
					addr(first), ruleset.Port(uint16(i)),
				}})
			}
			s.Elements = append(s.Elements, reach("127.0.0.0", fmt.Sprintf("127.0.%d.255", version)))
			return tenBy(1, rule(isIPv4, isUDP, ruleset.Lookup{Fields: both, Set: "areas"}, drop), s)
		},
	}
	states["one field, older kernel"] = states["one field"]
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a := open(t, ns)
			if strings.HasSuffix(name, "older kernel") {
				applier.SetMixesIntervals(a)
			}
			require.NoError(t, a.Apply(bg, state(0)))
			before := a.Stats().Transactions
			end := flood(t, ns)
			for i := range 40 {
				require.NoError(t, a.Apply(bg, state((i+1)%2)))
			}
			sent, through := end()
			t.Logf("40 changes, %d packets", sent)
			require.Zero(t, through)
			if !applier.MixesIntervals(a) {
				require.Equal(t, before+40, a.Stats().Transactions)
			} else {
				require.Greater(t, a.Stats().Transactions, before+80)
			}
		})
	}
}

// rawLookup looks the destination up in a set by raw expressions.
func rawLookup(set string) ruleset.Raw {
	var load, look netlink.Attrs
	load.String(unix.NFTA_EXPR_NAME, "payload")
	data := load.Begin(unix.NFTA_EXPR_DATA)
	for typ, v := range map[uint16]uint32{
		unix.NFTA_PAYLOAD_DREG: 1, unix.NFTA_PAYLOAD_BASE: 1, unix.NFTA_PAYLOAD_OFFSET: 16, unix.NFTA_PAYLOAD_LEN: 4,
	} {
		load.Uint32(typ, v)
	}
	load.End(data)
	look.String(unix.NFTA_EXPR_NAME, "lookup")
	data = look.Begin(unix.NFTA_EXPR_DATA)
	look.String(unix.NFTA_LOOKUP_SET, set)
	look.Uint32(unix.NFTA_LOOKUP_SREG, 1)
	look.End(data)
	first, _ := load.Data()
	second, _ := look.Data()
	return ruleset.Raw{Text: "ip daddr @" + set, Expressions: [][]byte{first, second}, Sets: []string{set}}
}

// behind puts that many chains before the chain "ten", each of which leads to the next one.
func behind(chains int) func(t *ruleset.Table) {
	return func(t *ruleset.Table) {
		to := "ten"
		for i := range chains {
			name := fmt.Sprintf("deep%d", i)
			t.Chains = append(t.Chains, chain(name, rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: to})))
			to = name
		}
		findChain(t, "out").Rules = []ruleset.Rule{rule(ruleset.Verdict{Kind: ruleset.Jump, Chain: to})}
	}
}

// widerNets returns a table whose set nets has the dropped addresses. Each version has another set,
// and other addresses.
func widerNets(version int, edit func(t *ruleset.Table)) *ruleset.Table {
	s := &ruleset.Set{
		Name: "nets", Key: []ruleset.Type{ruleset.TypeIPv4}, Interval: true,
		Elements: []ruleset.Element{prefix(fmt.Sprintf("127.0.0.0/%d", 8+version))},
	}
	table := tenBy(
		1+1000*version,
		rule(isIPv4, isUDP, ruleset.Lookup{Fields: []ruleset.Field{ruleset.IPDaddr}, Set: "nets"}, drop), s,
	)
	edit(table)
	table.Normalize()
	return table
}

// Shadows are possible as long as the kernel accepts the chains and their shadows, one after
// another.
func TestShadowsAtGreatestDepth(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	shadows, guarded := seen(f)
	for i := range 4 {
		require.NoError(t, a.Apply(bg, widerNets(i%2, behind(ruleset.MaxDepth-2))))
	}
	require.True(t, *shadows)
	require.False(t, *guarded)
	require.Zero(t, a.Stats().Refused)
}

// If shadows are not possible, the affected chains drop during the change.
func TestChainsDropWithoutShadows(t *testing.T) {
	deep := behind(ruleset.MaxDepth - 1)
	timed := func(t *ruleset.Table) { findSet(t, "nets").Timeouts = true }
	again := func(t *ruleset.Table) { findSet(t, "nets").Comment = fmt.Sprint(len(findSet(t, "many").Elements)) }
	raw := func(t *ruleset.Table) {
		findChain(t, "ten").Rules = []ruleset.Rule{rule(isIPv4, isUDP, rawLookup("nets"), drop)}
	}
	for name, edit := range map[string]func(*ruleset.Table){"deep": deep, "timed": timed, "again": again, "raw": raw} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			a, f := openFaulty(t, ns, applier.Config{Shared: true})
			require.NoError(t, a.Apply(bg, widerNets(0, edit)))
			end := flood(t, ns)
			shadows, guarded := seen(f)
			for i := range 4 {
				require.NoError(t, a.Apply(bg, widerNets((i+1)%2, edit)))
			}
			require.False(t, *shadows)
			require.True(t, *guarded)
			sent, through := end()
			require.NotZero(t, sent)
			require.Zero(t, through)
			require.NoError(t, open(t, ns).Apply(bg, widerNets(0, edit)))
		})
	}
}

// An object that the kernel refuses is held back also if shadows are needed. The other objects are
// programmed.
func TestIsolateBesideShadows(t *testing.T) {
	ns := nstest.New(t)
	a := openWith(t, ns, applier.Config{Logger: logger(t)})
	require.NoError(t, a.Apply(bg, sample()))
	edit := func(t *ruleset.Table) {
		findSet(t, "nets").Elements = intervals(100)
		findSet(t, "hosts").Elements = addresses(100)
	}
	requireHeld(t, a.Apply(bg, change(func(t *ruleset.Table) {
		edit(t)
		findChain(t, "db").Rules = []ruleset.Rule{bad}
	})), applier.Object{Kind: "chain", Name: "db"}, "db")
	requireLists(t, ns, change(func(t *ruleset.Table) {
		edit(t)
		findChain(t, "db").Rules = []ruleset.Rule{rule(drop, "held back: no such file or directory")}
	}))
	require.NoError(t, a.Apply(bg, sample()))
	requireLists(t, ns, sample())
}
