// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

func TestOnlyNetwork(t *testing.T) {
	network := []dataplane.Event{
		&dataplane.RouteUpdate{}, &dataplane.RouteRemove{}, &dataplane.TunnelUpdate{}, &dataplane.TunnelRemove{},
		&dataplane.NodeUpdate{}, &dataplane.NodeRemove{}, &dataplane.PoolUpdate{}, &dataplane.PoolRemove{},
		&dataplane.ServiceUpdate{}, &dataplane.ServiceRemove{}, &dataplane.NamespaceUpdate{},
		&dataplane.NamespaceRemove{}, &dataplane.ServiceAccountUpdate{}, &dataplane.ServiceAccountRemove{},
	}
	require.True(t, dataplane.Batch{Events: network}.OnlyNetwork())
	require.False(t, dataplane.Batch{}.OnlyNetwork(), "it has none of any kind")
	for _, e := range []dataplane.Event{
		&dataplane.IPSetUpdate{}, &dataplane.IPSetDelta{}, &dataplane.IPSetRemove{}, &dataplane.PolicyUpdate{},
		&dataplane.PolicyRemove{}, &dataplane.ProfileUpdate{}, &dataplane.ProfileRemove{}, &dataplane.EndpointUpdate{},
		&dataplane.EndpointRemove{}, &dataplane.HostEndpointUpdate{}, &dataplane.HostEndpointRemove{},
		&dataplane.InSync{},
	} {
		require.False(t, dataplane.Batch{Events: append(network[:1:1], e)}.OnlyNetwork(), "%T", e)
	}
}

// eachType returns an event of each type, in the order of a batch. All objects have the name.
func eachType(name string) []dataplane.Event {
	id, key := dataplane.IPSetID(name), policy.Key{Kind: "Kind", Name: name}
	account, tunnel := dataplane.ServiceAccountKey{Name: name}, dataplane.TunnelKey{Node: name, IPVersion: 4}
	route := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, name[0]}), 32)
	return []dataplane.Event{
		&dataplane.IPSetUpdate{ID: id}, &dataplane.IPSetDelta{ID: id},
		&dataplane.PolicyUpdate{Key: key}, &dataplane.ProfileUpdate{Name: name},
		&dataplane.EndpointUpdate{Key: key}, &dataplane.HostEndpointUpdate{Key: key},
		&dataplane.EndpointRemove{Key: key}, &dataplane.HostEndpointRemove{Key: key},
		&dataplane.ProfileRemove{Name: name}, &dataplane.PolicyRemove{Key: key}, &dataplane.IPSetRemove{ID: id},
		&dataplane.RouteRemove{Dst: route}, &dataplane.TunnelRemove{Key: tunnel},
		&dataplane.TunnelUpdate{Tunnel: &dataplane.Tunnel{Node: name, IPVersion: 4}},
		&dataplane.RouteUpdate{Route: &dataplane.Route{Dst: route}},
		&dataplane.NodeUpdate{Node: &dataplane.Node{Name: name}}, &dataplane.NodeRemove{Name: name},
		&dataplane.PoolUpdate{Pool: &dataplane.Pool{Name: name}}, &dataplane.PoolRemove{Name: name},
		&dataplane.ServiceUpdate{Service: &dataplane.Service{Key: key}}, &dataplane.ServiceRemove{Key: key},
		&dataplane.NamespaceUpdate{Namespace: &dataplane.Namespace{Name: name}}, &dataplane.NamespaceRemove{Name: name},
		&dataplane.ServiceAccountUpdate{ServiceAccount: &dataplane.ServiceAccount{Key: account}},
		&dataplane.ServiceAccountRemove{Key: account}, &dataplane.InSync{},
	}
}

// The order of events is the one that the comment of Batch documents.
func TestOrderOfEvents(t *testing.T) {
	var want []dataplane.Event
	var types []string
	first, second := eachType("a"), eachType("b")
	for i, e := range first {
		types = append(types, strings.TrimPrefix(fmt.Sprintf("%T", e), "*dataplane."))
		if i > 0 {
			step, _ := dataplane.CompareEvents(second[i-1], e)
			require.Equal(t, -1, step, "%s", e)
		}
		want = append(want, e)
		if _, ok := e.(*dataplane.InSync); ok {
			break
		}
		want = append(want, second[i])
		step, id := dataplane.CompareEvents(e, second[i])
		require.Equal(t, []int{0, -1}, []int{step, id}, "%s", e)
	}
	source, err := os.ReadFile("event.go")
	require.NoError(t, err)
	_, comment, _ := strings.Cut(string(source), "// this order:\n")
	list, _, _ := strings.Cut(comment, "// Each event")
	documented := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune("/ \t\n,", r) })
	require.Equal(t, documented, types)

	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		events := slices.Clone(want)
		random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		dataplane.SortEvents(events)
		require.Equal(t, want, events)
	}
}
