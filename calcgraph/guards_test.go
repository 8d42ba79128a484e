// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// The key of a deletion can have any name. A key with the internal name of a namespace's parent
// does not delete the namespace.
func TestDeletionByInternalNameKeepsNamespace(t *testing.T) {
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(t, err)
	set := func(r policy.Resource) { graph.Update(policy.Update{Key: r.Key(), Resource: r}) }
	for i := range 2 {
		set(&policy.WorkloadEndpoint{
			Namespace: "shop", Name: fmt.Sprint(i), Node: node, Interface: fmt.Sprint("way", i),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})},
		})
	}
	set(&policy.Policy{
		Namespace: "shop", Name: "p",
		Ingress: []policy.Rule{{Action: policy.Deny, Source: policy.EntityRule{Selector: "all()"}}},
	})
	graph.InSync()
	require.NotEmpty(t, graph.Flush().Events)
	graph.Update(policy.Update{Key: policy.Key{Kind: policy.KindProfile, Name: "/shop"}})
	set(&policy.Profile{Name: "/shop", LabelsToApply: map[string]string{"a": "b"}})
	require.Empty(t, graph.Flush().Events)
}

// A key with a namespace does not identify an object of a cluster-wide kind. Its deletion has no
// effect.
func TestDeletedKeyMustMatchNamespace(t *testing.T) {
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(t, err)
	order := 1.0
	all := []policy.Resource{
		&policy.Tier{Name: "x", Order: &order, DefaultAction: policy.Pass},
		&policy.Profile{Name: "x"},
		&policy.HostEndpoint{Name: "x", Node: node, InterfaceName: "eth0", Profiles: []string{"x"}},
		&policy.IPPool{Name: "x", CIDR: netip.MustParsePrefix("10.0.0.0/16")},
		&policy.Node{Name: node, Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.0.1/24")}},
		&policy.Policy{Name: "p", Tier: "x"},
	}
	for _, r := range all {
		graph.Update(policy.Update{Key: r.Key(), Resource: r})
	}
	graph.InSync()
	require.NotEmpty(t, graph.Flush().Events)
	for _, r := range all[:5] {
		key := r.Key()
		key.Namespace = "ns"
		graph.Update(policy.Update{Key: key})
		graph.Update(policy.Update{Key: key, Resource: r}) // rejected
		require.Empty(t, graph.Flush().Events, key)
	}
}

// Policies that no local endpoint can match any more take as little memory as before.
func TestPoliciesAreDeferredAgain(t *testing.T) {
	graph, err := calcgraph.New(calcgraph.Config{Node: node})
	require.NoError(t, err)
	graph.InSync()
	set := func(r policy.Resource) { graph.Update(policy.Update{Key: r.Key(), Resource: r}) }
	for i := range 20 {
		ns := fmt.Sprint("ns", i)
		set(&policy.Policy{Namespace: ns, Name: "p", Selector: fmt.Sprintf("app == %q", ns)})
	}
	require.Zero(t, graph.Stats().Selections)
	for i := range 20 {
		ns := fmt.Sprint("ns", i)
		w := &policy.WorkloadEndpoint{
			Namespace: ns, Name: "w", Node: node, Interface: "way1", Labels: map[string]string{"app": ns},
		}
		set(w)
		require.Equal(t, 1, graph.Stats().Selections)
		require.NotEmpty(t, graph.Flush().Events)
		graph.Update(policy.Update{Key: w.Key()})
		require.Zero(t, graph.Stats().Selections)
		require.Equal(t, 20, graph.Stats().Policies)
		graph.Flush()
	}
	require.Empty(t, graph.Snapshot().Events[:len(graph.Snapshot().Events)-1], "only in-sync is left")
}

// A caller must not change the ports of an endpoint after Update. If it does, sets stay consistent.
func TestPortsAreCopied(t *testing.T) {
	out := &memberRecorder{t: t, sets: map[dataplane.IPSetID]map[dataplane.Member]bool{}}
	sets, err := calcgraph.NewIPSets(out)
	require.NoError(t, err)
	spec := calcgraph.NamedPortSet(nil, "http", policy.ProtocolTCP)
	sets.IPSetActive(spec)
	port := policy.EndpointPort{Name: "http", Protocol: policy.ProtocolTCP, Port: 80}
	w := &policy.WorkloadEndpoint{
		Name: "w", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Ports: []policy.EndpointPort{port, port},
	}
	sets.UpdateEndpoint(w)
	require.Len(t, out.sets[spec.ID], 1)
	w.Ports[0].Port, w.Ports[1].Port = 81, 82
	sets.UpdateEndpoint(w)
	require.Len(t, out.sets[spec.ID], 2)
	w.Ports[0].Port = 83
	sets.Delete(w.Key())
	require.Empty(t, out.sets[spec.ID])
}
