// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// broken returns a state in which objects are missing or at fault.
func brokenState(w nfttest.World) dptest.State {
	s := w.State()
	var keys []policy.Key
	for k := range s.Policies {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, policy.Key.Compare)
	for i := range w.IntN(4) {
		h := &dataplane.HostEndpoint{
			Interface: nfttest.Pick(w, []string{"eth0", "eth1", "*", "", "way1"}),
			Profiles:  nfttest.Pick(w, [][]string{nil, {"a"}, {"b"}}),
		}
		if h.Interface == "" {
			h.Addresses = nfttest.Addresses("198.51.100.1")
		}
		h.Ingress, h.Egress, h.ForwardIngress, h.ForwardEgress = w.Tiers(s), w.Tiers(s), w.Tiers(s), w.Tiers(s)
		s.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: fmt.Sprintf("h%d", i)}] = h
	}
	for _, n := range []string{"way0", "way1", "way2"} {
		e := s.Endpoints[nfttest.EndpointKey(n)]
		if w.IntN(6) == 0 {
			e.Interface = nfttest.Pick(w, []string{"way0", "way1", "way2", "eth0", "bad:name"})
		}
		if w.IntN(4) == 0 {
			a := nfttest.Pick(w, nfttest.Addresses("10.0.0.1", "10.0.0.2"))
			b := nfttest.Pick(w, nfttest.Addresses("192.0.2.1", "192.0.2.2"))
			e.NATs = []policy.IPNAT{{InternalIP: a, ExternalIP: b}}
		}
		if w.IntN(8) == 0 {
			e.Addresses = []netip.Addr{netip.MustParseAddr("fe80::1%eth0")}
		}
		if w.IntN(5) == 0 {
			e.AllowedSources = nfttest.Some(w, 1, 2, w.Prefix)
		}
		if w.IntN(8) == 0 {
			delete(s.Endpoints, nfttest.EndpointKey(n))
		}
	}
	for _, k := range keys {
		switch w.IntN(12) {
		case 0:
			delete(s.Policies, k)
		case 1:
			s.Policies[k].Ingress = append(s.Policies[k].Ingress, dataplane.Rule{ID: "bad"})
		case 2:
			s.Policies[k].Untracked = true
		case 3:
			s.Policies[k].PreDNAT = true
		case 4:
			s.Policies[k].Ingress, s.Policies[k].Egress = nil, nil
		}
	}
	for _, n := range []string{"a", "b"} {
		switch w.IntN(8) {
		case 0:
			delete(s.Profiles, n)
		case 1:
			s.Profiles[n] = &dataplane.Profile{}
		}
	}
	for _, id := range slices.Concat(nfttest.NetSets(), nfttest.PortSets()) {
		switch w.IntN(12) {
		case 0:
			delete(s.Sets, id)
		case 1:
			s.Sets[id] = dptest.Set{Type: s.Sets[id].Type}
		}
	}
	return s
}

// S100: a renderer gets random states with missing objects and objects at fault, by batches in any
// order. At each state, its table, the table made by its deltas, its errors and the table of a
// clone equal those of a fresh renderer.
func TestIncompleteStatesEqualFreshRenderer(t *testing.T) {
	nfttest.EachFormInParallel(t, testIncompleteStatesEqualFreshRenderer)
}

func testIncompleteStatesEqualFreshRenderer(t *testing.T, classes render.ClassesConfig) {
	for _, seed := range worldFlags.Seeds(80, 8) {
		w := nfttest.NewWorld(seed, 77)
		cfg := render.Config{Classes: nfttest.Bounded(classes, seed), Reject: w.IntN(3) == 0, Counters: w.IntN(3) == 0}
		known := map[string][]netip.Addr{
			"eth0": nfttest.Addresses("198.51.100.1"), "eth1": nfttest.Addresses("198.51.100.2"),
		}
		r, err := render.New(cfg)
		require.NoError(t, err)
		kernel := ruleset.NewState(ruleset.FamilyINet, "wayleave")
		last := dptest.NewState()
		for step := range 8 {
			if w.IntN(4) == 0 {
				known = map[string][]netip.Addr{
					"eth0": nfttest.Addresses("198.51.100.1"),
					"eth1": nfttest.Some(w, 0.5, 1, func() netip.Addr {
						return nfttest.Pick(w, nfttest.Addresses("198.51.100.1", "198.51.100.2"))
					}),
				}
			}
			next := brokenState(w)
			b := dptest.Transition(last, next)
			if w.IntN(2) == 0 { // events one by one, in an order that no graph has, with some flushes
				w.Shuffle(len(b.Events), func(i, j int) {
					_, d1 := b.Events[i].(*dataplane.IPSetDelta)
					_, d2 := b.Events[j].(*dataplane.IPSetDelta)
					if !d1 && !d2 {
						b.Events[i], b.Events[j] = b.Events[j], b.Events[i]
					}
				})
			}
			with := withMasters(w, known)
			r.SetInterfaces(with)
			for i := 0; i < len(b.Events); {
				n := min(1+w.IntN(len(b.Events)), len(b.Events)-i)
				r.Update(dataplane.Batch{Events: b.Events[i : i+n]})
				i += n
				if w.IntN(3) == 0 {
					change, err := kernel.Prepare(r.Flush())
					require.NoError(t, err, "seed %d", seed)
					kernel.Commit(change)
				}
			}
			change, err := kernel.Prepare(r.Flush())
			require.NoError(t, err, "seed %d", seed)
			kernel.Commit(change)
			got, gotErrs := r.Table()
			f, err := render.New(cfg)
			require.NoError(t, err)
			f.SetInterfaces(with)
			f.Update(nfttest.Transition(next))
			want, wantErrs := f.Table()
			require.NoError(t, want.Validate(), "seed %d step %d", seed, step)
			require.Equal(t, want.String(), got.String(), "seed %d step %d", seed, step)
			require.Equal(t, want.String(), kernel.Table().String(), "seed %d step %d", seed, step)
			require.Equal(t, messages(wantErrs), messages(gotErrs), "seed %d step %d", seed, step)
			clone, _ := r.Clone().Table()
			require.Equal(t, want.String(), clone.String())
			last = next
		}
	}
}

// withMasters returns the given interfaces and those of endpoints. Some of them are ports of a
// master.
func withMasters(w nfttest.World, addresses map[string][]netip.Addr) map[string]render.Interface {
	known := nfttest.InterfacesWith(addresses)
	for _, name := range []string{"way0", "way1", "way2", "eth0"} {
		if w.IntN(4) == 0 {
			i := known[name]
			i.Master = nfttest.Pick(w, []render.Master{
				{Name: "br0", Kind: "bridge"}, {Name: "eth0", Kind: "bond"}, {Name: "way0"},
			})
			known[name] = i
		}
	}
	return known
}
