// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// memberRecorder is a MemberReceiver that records members and checks the order of calls.
type memberRecorder struct {
	t    *testing.T
	sets map[dataplane.IPSetID]map[dataplane.Member]bool
}

func (h *memberRecorder) IPSetAdded(id dataplane.IPSetID, _ dataplane.IPSetType) {
	require.NotContains(h.t, h.sets, id)
	h.sets[id] = map[dataplane.Member]bool{}
}

func (h *memberRecorder) IPSetRemoved(id dataplane.IPSetID) {
	require.Empty(h.t, h.sets[id])
	delete(h.sets, id)
}

func (h *memberRecorder) MemberChanged(id dataplane.IPSetID, m dataplane.Member, present bool) {
	if h.sets[id][m] == present {
		require.Fail(h.t, "reported twice", "%s %s %t", id, m, present)
	}
	if present {
		h.sets[id][m] = true
	} else {
		delete(h.sets[id], m)
	}
}

// TestManyObjects adds, changes and removes thousands of objects with few addresses, and compares
// the members with those of the matching objects (S80, S85, S94).
func TestManyObjects(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	out := &memberRecorder{t: t, sets: map[dataplane.IPSetID]map[dataplane.Member]bool{}}
	sets, err := calcgraph.NewIPSets(out)
	require.NoError(t, err)
	specs := []*calcgraph.IPSetSpec{
		calcgraph.SelectorSet(selector.Has("a")), calcgraph.SelectorSet(selector.Equal("a", "1")),
		calcgraph.SelectorSet(selector.NotEqual(policy.LabelNamespace, "n3")),
		calcgraph.NamedPortSet(selector.Has("a"), "http", 0),
		calcgraph.NamedPortSet(nil, "http", policy.ProtocolTCP),
	}
	world := map[policy.Key]*policy.WorkloadEndpoint{}
	active := map[dataplane.IPSetID]bool{}
	for step := range 60_000 {
		w := randomEndpoint(rng)
		key := w.Key()
		switch {
		case step%500 == 0:
			spec := specs[rng.IntN(len(specs))]
			if active[spec.ID] {
				sets.IPSetInactive(spec.ID)
			} else {
				sets.IPSetActive(spec)
			}
			active[spec.ID] = !active[spec.ID]
		case rng.IntN(10) < 4 || step > 50_000: // at the end, all are removed
			sets.Delete(key)
			delete(world, key)
		default:
			sets.UpdateEndpoint(w)
			world[key] = w
		}
		if step%2_000 == 0 || step == 59_999 {
			checkMembers(t, sets, out, specs, world)
		}
	}
	for key := range world {
		sets.Delete(key)
	}
	for id, members := range out.sets {
		require.Empty(t, members)
		require.Empty(t, sets.Members(id))
	}
}

func randomEndpoint(rng *rand.Rand) *policy.WorkloadEndpoint {
	w := &policy.WorkloadEndpoint{
		Namespace: fmt.Sprintf("n%d", rng.IntN(6)), Name: fmt.Sprintf("w%d", rng.IntN(1_500)),
		Labels: map[string]string{},
	}
	if w.Namespace == "n0" {
		w.Namespace = ""
	}
	for range rng.IntN(3) {
		addr := netip.AddrFrom4([4]byte{10, 0, byte(rng.IntN(40)), byte(rng.IntN(250))})
		if rng.IntN(8) == 0 {
			addr = netip.AddrFrom16([16]byte{0: 0xfd, 15: byte(rng.IntN(250))})
		}
		w.Addresses = append(w.Addresses, addr)
	}
	if rng.IntN(2) == 0 {
		w.Labels["a"] = fmt.Sprint(rng.IntN(3))
	}
	for range rng.IntN(3) - 1 {
		w.Ports = append(w.Ports, policy.EndpointPort{
			Name: "http", Protocol: policy.ProtocolTCP, Port: uint16(80 + rng.IntN(2)),
		})
	}
	return w
}

func checkMembers(
	t *testing.T, sets *calcgraph.IPSets, out *memberRecorder, specs []*calcgraph.IPSetSpec,
	world map[policy.Key]*policy.WorkloadEndpoint,
) {
	t.Helper()
	for _, spec := range specs {
		if out.sets[spec.ID] == nil {
			require.Empty(t, sets.Members(spec.ID))
			continue
		}
		want := map[dataplane.Member]bool{}
		for _, w := range world {
			labels := maps.Clone(w.Labels)
			if w.Namespace != "" {
				labels[policy.LabelNamespace] = w.Namespace
			}
			if !spec.Selector.Match(selector.Map(labels)) {
				continue
			}
			for _, addr := range w.Addresses {
				m := dataplane.Member{Prefix: netip.PrefixFrom(addr, addr.BitLen())}
				if spec.Type == dataplane.IPSetNets {
					want[m] = true
					continue
				}
				for _, p := range w.Ports {
					want[dataplane.Member{Prefix: m.Prefix, Protocol: p.Protocol, Port: p.Port}] = true
				}
			}
		}
		require.Equal(t, want, out.sets[spec.ID])
		require.Equal(t, slices.SortedFunc(maps.Keys(want), dataplane.Member.Compare), sets.Members(spec.ID))
	}
}
