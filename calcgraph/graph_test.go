// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// TestRejected: an invalid resource is absent and reported, with its key and the field (S101).
func TestRejected(t *testing.T) {
	rejected := map[policy.Key]error{}
	graph, err := calcgraph.New(calcgraph.Config{
		Node:  node,
		Hooks: calcgraph.Hooks{Rejected: func(k policy.Key, err error) { rejected[k] = err }},
	})
	require.NoError(t, err)
	graph.InSync()
	graph.Update(endpoint("x", "10.0.0.1"))
	require.Len(t, graph.Flush().Events, 3, "the endpoint, its route and in-sync")

	bad := &policy.Policy{Name: "p", Selector: "a ==", Ingress: []policy.Rule{{}}}
	graph.Update(policy.Update{Key: bad.Key(), Resource: bad})
	require.Empty(t, graph.Flush().Events)
	require.ErrorContains(t, rejected[bad.Key()], "Policy/p")
	require.ErrorContains(t, rejected[bad.Key()], "selector")
	require.ErrorContains(t, rejected[bad.Key()], "ingress[0].action")

	// A resource under another key than its own is absent, under the key of the update.
	u := endpoint("y", "10.0.0.2")
	u.Key = endpoint("x", "10.0.0.1").Key
	graph.Update(u)
	require.Contains(t, rejected, u.Key)
	require.Equal(t, "remove endpoint "+u.Key.String(), graph.Flush().Events[0].String())
}

// TestInSyncIsSentOnce: InSync is sent once, however often the source reports it.
func TestInSyncIsSentOnce(t *testing.T) {
	graph := newGraph(t)
	graph.InSync()
	graph.InSync()
	require.Len(t, graph.Flush().Events, 1)
	graph.InSync()
	require.Empty(t, graph.Flush().Events)
}

// TestIdleFlush: a flush without changes allocates nothing, however large the graph is.
func TestIdleFlush(t *testing.T) {
	graph := newGraph(t)
	for u := range (snapshot{remote: 500, policies: 50}).updates() {
		graph.Update(u)
	}
	graph.InSync()
	graph.Flush()
	require.Zero(t, testing.AllocsPerRun(100, func() { graph.Flush() }))
}

// TestRepeatedUpdates: repeated updates with equal values have no effect (S99).
func TestRepeatedUpdates(t *testing.T) {
	graph := newGraph(t)
	graph.InSync()
	for range 2 {
		for u := range (snapshot{remote: 500, policies: 50}).updates() {
			graph.Update(u)
		}
		for u := range (networkSets{remote: 10, sets: 20}).updates() {
			if u.Key.Kind == policy.KindNetworkSet {
				graph.Update(u)
			}
		}
		graph.Flush()
	}
	stats := graph.Stats()
	for u := range (snapshot{remote: 500, policies: 50}).updates() {
		graph.Update(u)
	}
	require.True(t, graph.Flush().Empty())
	require.Equal(t, stats.SetIndex.Matches, graph.Stats().SetIndex.Matches)
}

// TestSharedLists: endpoints that the same policies select share the same lists. A change of rules
// does not replace them.
func TestSharedLists(t *testing.T) {
	graph := newGraph(t)
	graph.InSync()
	p := &policy.Policy{Name: "p", Selector: "all()"}
	graph.Update(policy.Update{Key: p.Key(), Resource: p})
	graph.Update(endpoint("x", "10.0.0.1"))
	graph.Update(endpoint("y", "10.0.0.2"))
	lists := map[*dataplane.TierPolicies]bool{}
	for _, e := range graph.Flush().Events {
		if e, ok := e.(*dataplane.EndpointUpdate); ok {
			lists[&e.Endpoint.Ingress[0]] = true
		}
	}
	require.Len(t, lists, 1)
	require.Equal(t, 1, graph.Stats().Stacks)

	edited := &policy.Policy{Name: "p", Selector: " all()", Ingress: []policy.Rule{{Action: policy.Allow}}}
	graph.Update(policy.Update{Key: p.Key(), Resource: edited})
	require.Len(t, graph.Flush().Events, 1, "the policy alone")
}

func TestSnapshotOfEmptyGraph(t *testing.T) {
	graph := newGraph(t)
	require.True(t, graph.Snapshot().Empty())
	graph.InSync()
	require.True(t, graph.Snapshot().Empty(), "nothing has been flushed")
	graph.Flush()
	require.True(t, graph.Snapshot().CarriesInSync())
}

func TestState(t *testing.T) {
	graph := newGraph(t)
	host := &policy.HostEndpoint{Name: "h", Node: node, InterfaceName: "eth0"}
	web := &policy.Policy{
		Namespace: "a", Name: "p", Tier: "sec", Selector: `app=="web"`,
		Ingress: []policy.Rule{{
			Action: policy.Allow, Protocol: policy.ProtocolTCP,
			Source:      policy.EntityRule{Selector: "has(x)"},
			Destination: policy.EntityRule{Ports: []policy.Port{policy.PortName("http")}},
		}},
		Egress: []policy.Rule{
			{Action: policy.Allow, Destination: policy.EntityRule{Services: &policy.ServiceMatch{Name: "s"}}},
		},
	}
	idle := &policy.Policy{Name: "idle", Selector: "has(nothing)"}
	always := &policy.Policy{
		Name: "always", Selector: "has(nothing)",
		PerformanceHints: []policy.PerformanceHint{policy.AssumeNeededOnEveryNode},
	}
	u := endpoint("x", "10.0.0.1")
	w := u.Resource.(*policy.WorkloadEndpoint)
	w.Labels, w.Profiles = map[string]string{"app": "web"}, []string{"missing"}
	graph.Update(u)
	for _, r := range []policy.Resource{host, web, idle, always} {
		graph.Update(policy.Update{Key: r.Key(), Resource: r})
	}
	graph.Update(policy.Update{Key: host.Key(), Resource: &policy.HostEndpoint{}})
	graph.Update(policy.Update{Key: host.Key(), Resource: host})

	s := graph.State()
	require.Equal(t, node, s.Node)
	require.False(t, s.InSync)
	require.Equal(t, []calcgraph.PolicyState{
		{Key: always.Key(), Tier: "default", Selector: "has(nothing)"},
		{Key: web.Key(), Tier: "sec", Selector: `(projectcalico.org/namespace == "a" && app == "web")`, Endpoints: 1},
	}, s.Policies)
	require.Equal(t, []string{"missing"}, s.Profiles)
	require.Equal(t, []calcgraph.EndpointState{
		{Key: host.Key()},
		{Key: u.Key, Selectors: []string{`(projectcalico.org/namespace == "a" && app == "web")`}},
	}, s.Endpoints)
	require.Len(t, s.Sets, 3)
	named, peers, service := s.Sets[0], s.Sets[1], s.Sets[2]
	require.Equal(t, []any{"http", policy.ProtocolTCP, "all()", 1},
		[]any{named.PortName, named.Protocol, named.Selector, named.Owners})
	require.Equal(t, `(projectcalico.org/namespace == "a" && has(x))`, peers.Selector)
	require.Equal(t, []any{"a/s", dataplane.IPSetPorts, ""}, []any{service.Service, service.Type, service.Selector})

	stats := graph.Stats()
	require.Equal(t, uint64(1), stats.Rejected)
	require.Equal(t, 2, stats.LocalEndpoints)
	require.Equal(t, 2, stats.Objects)
	require.Equal(t, []int{3, 2, 2}, []int{stats.Policies, stats.Selections, stats.ActivePolicies})
	require.Equal(t, []int{1, 3}, []int{stats.ActiveProfiles, stats.Sets})
}
