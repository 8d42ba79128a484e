// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/testhook"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// classModel changes the state of a Renderer. After each flush, it compares the Renderer with a new
// one, and with the verdicts of the state.
type classModel struct {
	nfttest.World
	t      *testing.T
	cfg    render.Config
	few    bool
	r      *render.Renderer
	kernel *ruleset.State
	known  map[string][]netip.Addr
}

func newClassModel(t *testing.T, seed uint64) *classModel {
	w := nfttest.NewWorld(seed, 9)
	m := &classModel{
		World: w, t: t, few: w.IntN(2) == 0, kernel: ruleset.NewState(ruleset.FamilyINet, "wayleave"),
		cfg:   render.Config{LogRate: -1, Reject: w.IntN(3) == 0, Counters: w.IntN(4) == 0},
		known: map[string][]netip.Addr{"eth0": nfttest.Addresses("198.51.100.1")},
	}
	m.cfg.Classes.MaxPerGroup = nfttest.Pick(w, []int{0, 0, 3, 9, 18, 36})
	m.cfg.Classes.MaxTotal = nfttest.Pick(w, []int{0, 0, 12, 30, 60})
	m.r = m.fresh()
	return m
}

func (m *classModel) fresh() *render.Renderer {
	cfg := m.cfg
	if m.few {
		cfg.Classes.TestHook = testhook.FewNumbers()
	}
	r, err := render.New(cfg)
	require.NoError(m.t, err)
	r.SetInterfaces(nfttest.InterfacesWith(m.known))
	return r
}

func (m *classModel) flush() {
	change, err := m.kernel.Prepare(m.r.Flush())
	require.NoError(m.t, err)
	m.kernel.Commit(change)
}

// play passes events to the Renderer in some batches, and reads its table in between.
func (m *classModel) play(events []dataplane.Event) {
	for i := 0; i < len(events); {
		n := min(1+m.IntN(len(events)), len(events)-i)
		m.r.Update(dataplane.Batch{Events: events[i : i+n]})
		i += n
		switch m.IntN(4) {
		case 0:
			m.flush()
		case 1:
			m.r.Table()
		}
	}
	m.flush()
}

// shuffle randomizes the order of events. Changes of a set follow the set.
func (m *classModel) shuffle(events []dataplane.Event) {
	m.Shuffle(len(events), func(i, j int) {
		_, d1 := events[i].(*dataplane.IPSetDelta)
		_, d2 := events[j].(*dataplane.IPSetDelta)
		if !d1 && !d2 {
			events[i], events[j] = events[j], events[i]
		}
	})
}

// again returns events that remove objects of a state and add them again.
func (m *classModel) again(s dptest.State) (out []dataplane.Event) {
	for _, id := range slices.Sorted(maps.Keys(s.Sets)) {
		if set := s.Sets[id]; m.IntN(4) == 0 {
			out = append(out, &dataplane.IPSetRemove{ID: id}, &dataplane.IPSetUpdate{
				ID: id, Type: set.Type, Members: set.Members,
			})
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.Endpoints), policy.Key.Compare) {
		if e := s.Endpoints[k]; m.IntN(4) == 0 {
			out = append(out, &dataplane.EndpointRemove{Key: k}, &dataplane.EndpointUpdate{Key: k, Endpoint: e})
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.Policies), policy.Key.Compare) {
		if p := s.Policies[k]; m.IntN(4) == 0 {
			out = append(out, &dataplane.PolicyRemove{Key: k}, &dataplane.PolicyUpdate{Key: k, Policy: p})
		}
	}
	return out
}

// sizes returns the number of entries of each kind in a Renderer, except caches and scratch space.
// Kernel sets of IP sets exist for rules that never match, until the set changes.
func sizes(r *render.Renderer) map[string]int {
	return render.FieldSizes(r, "github.com/wayleave/wayleave/dataplane/nft/",
		"classIndex.edits", "classIndex.unions", "classIndex.predicates", "classIndex.key", "indexes.scratch",
		"measurement.sizes", "LocalAddresses.sorted", "IPSet.parts", "Lists.parts")
}

// check compares the Renderer with a new one that receives the state at once.
func (m *classModel) check(s dptest.State) *ruleset.Table {
	got, gotErrs := m.r.Table()
	f := m.fresh()
	f.Update(nfttest.Transition(s))
	f.Flush()
	want, wantErrs := f.Table()
	require.NoError(m.t, want.Validate())
	require.Equal(m.t, want.String(), got.String())
	require.Equal(m.t, want.String(), m.kernel.Table().String())
	require.Equal(m.t, messages(wantErrs), messages(gotErrs))
	require.Equal(m.t, f.ClassStats(), m.r.ClassStats(), "counts and costs depend on earlier states")
	require.Equal(m.t, sizes(f), sizes(m.r), "the kept entries depend on earlier states")
	clone := m.r.Clone()
	if !m.few {
		c, _ := clone.Table()
		require.Equal(m.t, want.String(), c.String())
	}
	return got
}

// judge compares the verdicts of the table on packets with those of the state.
func (m *classModel) judge(s dptest.State, table *ruleset.Table, packets int) {
	ready := newSimTable(m.t, table)
	for range packets {
		p, sp := randomPacket(m.World)
		want := s.Judge(p)
		got := sp.Run(m.t, ready.after, ruleset.Forward)
		require.Equal(m.t, want.Allowed(), got.Allowed, "packet %+v\nverdict %+v\n%s\n%s", p, want, s, table)
	}
}

// steps returns the events from one state to another. Sets may change their type.
func steps(from, to dptest.State) (out []dataplane.Event) {
	for _, id := range slices.Sorted(maps.Keys(to.Sets)) {
		if now := to.Sets[id]; from.Sets[id].Type != now.Type {
			out = append(out, &dataplane.IPSetUpdate{ID: id, Type: now.Type, Members: now.Members})
		}
	}
	return append(out, dptest.Transition(from, to).Events...)
}

// worse adds faults that no graph sends: duplicates in lists, unknown actions, sets of the wrong
// type, members that do not fit the type, and invalid prefixes.
func (m *classModel) worse(s dptest.State) {
	for _, k := range slices.SortedFunc(maps.Keys(s.Endpoints), policy.Key.Compare) {
		e := s.Endpoints[k]
		for _, tiers := range []*[]dataplane.TierPolicies{&e.Ingress, &e.Egress} {
			*tiers = slices.Clone(*tiers)
			for i := range *tiers {
				t := &(*tiers)[i]
				switch m.IntN(8) {
				case 0:
					t.Policies = append(slices.Clone(t.Policies), t.Policies...)
				case 1:
					t.DefaultAction = "other"
				case 2:
					t.Policies = nil
				}
			}
			if len(*tiers) > 0 && m.IntN(6) == 0 {
				*tiers = append(*tiers, (*tiers)[0])
			}
		}
		if m.IntN(4) == 0 {
			e.Profiles = append(slices.Clone(e.Profiles), "a", "a")
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(s.Policies), policy.Key.Compare) {
		bad := dataplane.Rule{ID: "bad", Action: policy.Allow, Source: dataplane.Match{
			Sets: []dataplane.IPSetID{"s:a"},
		}}
		switch m.IntN(16) {
		case 0:
			bad.Source = dataplane.Match{Nets: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/112")}}
		case 1:
			bad.Source.NotNets = []netip.Prefix{{}}
		case 2:
			bad.IPVersion, bad.Protocol = 4, policy.ProtocolICMPv6 // never
		case 3:
			bad.Source.Nets = []netip.Prefix{
				netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("0.0.0.0/0"),
				netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("::/0"),
			}
		default:
			continue
		}
		p := *s.Policies[k]
		p.Ingress = append(slices.Clone(p.Ingress), bad)
		s.Policies[k] = &p
	}
	if set := s.Sets["s:a"]; m.IntN(6) == 0 {
		s.Sets["s:a"] = dptest.Set{Type: dataplane.IPSetPorts, Members: set.Members}
	}
	if set := s.Sets["s:b"]; m.IntN(6) == 0 {
		set.Members = append(slices.Clone(set.Members), dataplane.Member{
			Prefix: netip.MustParsePrefix("::ffff:10.0.0.1/128"),
		})
		slices.SortFunc(set.Members, dataplane.Member.Compare)
		s.Sets["s:b"] = set
	}
}

// drops requires that an endpoint with an error drops all packets, in both directions.
func (m *classModel) drops(s dptest.State, table *ruleset.Table) {
	_, errs := m.r.Table()
	ready := newSimTable(m.t, table)
	for _, err := range errs {
		var apply *dataplane.ApplyError
		require.ErrorAs(m.t, err, &apply)
		e := s.Endpoints[apply.Object]
		if e == nil || !ruleset.ValidIfname(e.Interface) {
			continue
		}
		for range 10 {
			_, sp := randomPacket(m.World)
			sp.IIF, sp.OIF = e.Interface, "eth1"
			require.False(m.t, sp.Run(m.t, ready.after, ruleset.Forward).Allowed, "%v: %+v", err, sp)
			sp.IIF, sp.OIF = "eth1", e.Interface
			require.False(m.t, sp.Run(m.t, ready.after, ruleset.Forward).Allowed, "%v: %+v", err, sp)
		}
	}
}

// The table depends only on the state, not on earlier states, and has the verdicts of the state. In
// some states, groups exceed the limits, numbers collide, and objects are missing or at fault.
func TestClassModel(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newClassModel(t, seed)
			last := dptest.NewState()
			for step := range 6 {
				next := m.State()
				whole := step%2 == 0
				if !whole {
					next = brokenState(m.World)
					m.worse(next)
				}
				for _, k := range slices.SortedFunc(maps.Keys(next.Endpoints), policy.Key.Compare) {
					if m.IntN(5) == 0 {
						delete(next.Endpoints, k)
					}
				}
				if m.IntN(4) == 0 { // few changes
					part := next
					next = last.Clone()
					id := nfttest.Pick(m.World, nfttest.NetSets())
					next.Sets[id] = part.Sets[id]
					whole = false
				}
				events := steps(last, next)
				if m.IntN(2) == 0 {
					m.shuffle(events)
				}
				m.play(append(events, m.again(next)...))
				table := m.check(next)
				m.drops(next, table)
				if whole {
					m.judge(next, table, 40)
				}
				last = next
			}
			m.play(dptest.Transition(last, dptest.NewState()).Events)
			empty := m.fresh()
			empty.Flush()
			require.Equal(t, empty.ClassStats(), m.r.ClassStats())
			require.Equal(t, sizes(empty), sizes(m.r), "entries are left")
		})
	}
}
