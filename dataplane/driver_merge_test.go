// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// Batches that wait for a long attempt are applied as one, without the states in between.
func TestDriverMerges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.send(world("a", "b"))
		r.calls()
		release := r.hold()
		r.send(world("a", "b", "c"))
		r.send(world("a", "b", "c", "d")) // this batch and the next ones wait in the queue
		r.send(world("a", "c"))           // d was added and removed
		moved := world("a", "c")
		moved.Endpoints[endpointKey("a")].Interface = "elsewhere"
		r.send(moved)
		require.Equal(t, 3, r.driver.Stats().Queue)
		require.NotContains(t, r.driver.Status().Endpoints, endpointKey("b"), "removed from the status at once")
		r.calls()
		release()
		require.Equal(t, []string{
			"routes apply",
			"  endpoint WorkloadEndpoint/n/c if-c [10.0.0.99] ingress default:deny[Policy/p] egress - profiles []",
			"routes apply", "  remove endpoint WorkloadEndpoint/n/b", "policy apply",
			"  endpoint WorkloadEndpoint/n/a elsewhere [10.0.0.97] ingress default:deny[Policy/p] egress - profiles []",
			"  remove endpoint WorkloadEndpoint/n/b", "routes apply",
			"  endpoint WorkloadEndpoint/n/a elsewhere [10.0.0.97] ingress default:deny[Policy/p] egress - profiles []",
		}, r.calls())
		stats := r.driver.Stats()
		require.Equal(t, uint64(5), stats.Batches)
		require.Equal(t, uint64(3), stats.Attempts)
		require.Equal(t, uint64(5), r.driver.Status().Applied)
	})
}

// A batch in the queue is pending, whatever the result of the batch before it.
func TestDriverQueuedStateIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOf(t, "only")
		defer r.done()
		first := r.hold()
		r.send(world("a", "b"))
		moved := world("a", "b")
		moved.Endpoints[endpointKey("a")].Interface = "elsewhere"
		r.send(moved)
		second := r.hold() // for the attempt after the one that is under way
		first()
		status := r.driver.Status()
		require.True(t, status.Pending)
		require.Equal(t, dataplane.EndpointStatus{State: dataplane.EndpointPending, Generation: 2},
			status.Endpoints[endpointKey("a")])
		require.Equal(t, dataplane.EndpointUp, status.Endpoints[endpointKey("b")].State)
		second()
		require.Equal(t, dataplane.EndpointUp, r.driver.Status().Endpoints[endpointKey("a")].State)
		require.False(t, r.driver.Status().Pending)
	})
}

// While a policy is at fault, the route of an endpoint that refers to it is withheld, whatever the
// batch in the queue changes.
func TestDriverFaultIsOfAppliedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.done()
		r.send(world("b"))
		release := r.hold()
		r.fail("policy", objectError(policyKey("q")))
		bad := world("b")
		addPolicy(bad, "q")
		addEndpoint(bad, "a", "q", "if-a")
		r.send(bad)
		r.send(world("a", "b")) // under a policy without a fault
		r.calls()
		release()
		require.Equal(t, []string{ // as q is at fault, routes get no update of a until the next batch
			"routes apply", "  policy Policy/q tier default: ingress allow",
			"policy apply",
			"  endpoint WorkloadEndpoint/n/a if-a [10.0.0.97] ingress default:deny[Policy/p] egress - profiles []",
			"  remove policy Policy/q",
			"routes apply",
			"  endpoint WorkloadEndpoint/n/a if-a [10.0.0.97] ingress default:deny[Policy/p] egress - profiles []",
			"  remove policy Policy/q",
		}, r.calls())
		require.NoError(t, r.driver.WaitProgrammed(t.Context(), endpointKey("b")))
	})
}

// TestDriverMergesAtRandom sends random worlds of all kinds of objects one by one, while batches
// accumulate in the queue. The mirrors refuse a batch that breaks the order of Batch.
func TestDriverMergesAtRandom(t *testing.T) {
	merged := uint64(0)
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			r := newRigWith(t, dataplane.DriverConfig{MaxQueued: 1000}, "only")
			defer r.done()
			for range 10 {
				release := r.hold()
				for range rng.IntN(6) {
					r.send(randomEverything(rng))
				}
				release()
				require.NoError(t, r.driver.Status().LastError, "seed %d", seed)
				require.Equal(t, r.sent.String(), r.state("only").String(), "seed %d", seed)
			}
			stats := r.driver.Stats()
			merged += stats.Batches - stats.Attempts
		})
	}
	require.NotZero(t, merged)
}

// randomEverything returns a world with objects of every kind, few enough that they are often
// added, removed and changed.
func randomEverything(rng *rand.Rand) dptest.State {
	s := randomWorld(rng)
	for i := range 3 {
		if id := dataplane.IPSetID("s:" + strconv.Itoa(i)); rng.IntN(2) == 0 {
			var members []dataplane.Member
			for j := range 6 {
				if rng.IntN(2) == 0 {
					members = append(members,
						dataplane.Member{Prefix: netip.MustParsePrefix(fmt.Sprintf("10.1.0.%d/32", j))})
				}
			}
			slices.SortFunc(members, dataplane.Member.Compare)
			s.Sets[id] = dptest.Set{Members: members}
		}
		name := strconv.Itoa(i)
		if rng.IntN(2) == 0 {
			s.Profiles[name] = &dataplane.Profile{
				Ingress: []dataplane.Rule{{Action: policy.Allow, IPVersion: 4 + 2*rng.IntN(2)}},
			}
		}
		if rng.IntN(2) == 0 {
			s.Nodes[name] = &dataplane.Node{Name: name, Labels: map[string]string{"v": strconv.Itoa(rng.IntN(2))}}
			s.Namespaces[name] = &dataplane.Namespace{Name: name}
		}
		if key := (policy.Key{Kind: policy.KindServiceBackends, Name: name}); rng.IntN(2) == 0 {
			s.Services[key] = &dataplane.Service{Key: key, Name: strconv.Itoa(rng.IntN(2))}
		}
		account := dataplane.ServiceAccountKey{Namespace: name, Name: "x"}
		if rng.IntN(2) == 0 {
			s.ServiceAccounts[account] = &dataplane.ServiceAccount{Key: account}
		}
		randomNetwork(rng, s, i)
	}
	useSets(s)
	return s
}

// randomNetwork adds tunnels, perhaps, and routes, of which one leads through a tunnel.
func randomNetwork(rng *rand.Rand, s dptest.State, i int) {
	node := "n" + strconv.Itoa(i)
	dst := netip.MustParsePrefix(fmt.Sprintf("10.2.%d.0/24", i))
	route := &dataplane.Route{Dst: dst, Type: dataplane.RouteBlackhole, Node: "self"}
	if rng.IntN(2) == 0 {
		tunnel := &dataplane.Tunnel{
			Node: node, IPVersion: 4, Address: netip.MustParseAddr(fmt.Sprintf("10.3.%d.%d", i, rng.IntN(2))),
			MAC: fmt.Sprintf("66:00:00:00:00:0%d", i), ParentAddress: netip.MustParseAddr("192.0.2.1"),
		}
		s.Tunnels[tunnel.Key()] = tunnel
		route = &dataplane.Route{
			Dst: dst, Type: dataplane.RouteRemoteWorkload, Node: node, Pool: dataplane.PoolVXLAN,
			NodeAddress: netip.MustParseAddr("192.0.2.1"),
		}
		if rng.IntN(2) == 0 { // an IP-in-IP tunnel too, or only that one
			ipip := *tunnel
			ipip.Encapsulation, ipip.MAC = dataplane.EncapIPIP, ""
			s.Tunnels[ipip.Key()] = &ipip
			route.Pool = dataplane.PoolIPIP
			if rng.IntN(2) == 0 {
				delete(s.Tunnels, tunnel.Key())
			}
		}
	}
	if rng.IntN(3) > 0 {
		s.Routes[dst] = route
	}
}

// useSets makes the policies refer to the sets, and deletes the sets if there is no policy.
func useSets(s dptest.State) {
	for i, key := range slices.SortedFunc(maps.Keys(s.Policies), policy.Key.Compare) {
		id := dataplane.IPSetID("s:" + strconv.Itoa(i))
		if _, ok := s.Sets[id]; ok {
			s.Policies[key].Ingress[0].Source.Sets = []dataplane.IPSetID{id}
		}
	}
}
