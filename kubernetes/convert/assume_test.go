// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bare returns a pod without node and address, as in a manifest.
func bare(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

func assumeAll(t *testing.T, pods ...*corev1.Pod) ([]*policy.WorkloadEndpoint, []convert.Assumed) {
	t.Helper()
	var resources []policy.Resource
	for _, pod := range pods {
		made, problems := convert.Converter{AssumeNetwork: true}.Convert(pod)
		require.Empty(t, problems)
		resources = append(resources, made...)
	}
	resources, assumed := convert.Assume(resources)
	var endpoints []*policy.WorkloadEndpoint
	for _, r := range resources {
		require.NoError(t, r.Validate())
		endpoints = append(endpoints, r.(*policy.WorkloadEndpoint))
	}
	return endpoints, assumed
}

func TestAssumeInventsNodesAndAddresses(t *testing.T) {
	none, problems := convert.Converter{}.Pod(bare("web"))
	require.Nil(t, none, "AssumeNetwork is not set")
	require.Empty(t, problems)

	noNode, noAddress, host, done := testPod(), bare("scheduled"), bare("host"), bare("done")
	noNode.Name, noNode.Spec.NodeName = "no-node", ""
	noAddress.Spec.NodeName = "n7"
	host.Spec.HostNetwork = true
	done.Status.Phase = corev1.PodSucceeded
	endpoints, assumed := assumeAll(t, testPod(), bare("a"), noNode, noAddress, host, done)
	require.Len(t, endpoints, 4)
	real4 := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	require.Equal(t, "n1", endpoints[0].Node)
	require.Equal(t, real4, endpoints[0].Addresses)
	require.Equal(t, convert.AssumedNode, endpoints[1].Node)
	require.Len(t, endpoints[1].Addresses, 2)
	require.Equal(t, convert.AssumedNode, endpoints[2].Node)
	require.Equal(t, real4, endpoints[2].Addresses)
	require.Equal(t, "n7", endpoints[3].Node)
	require.Equal(t, []convert.Assumed{
		{Key: endpoints[1].Key(), Node: true, Addresses: endpoints[1].Addresses},
		{Key: endpoints[2].Key(), Node: true},
		{Key: endpoints[3].Key(), Addresses: endpoints[3].Addresses},
	}, assumed)
}

// Many pods get unique addresses of the documented prefixes, in any order of the pods.
func TestAssumedAddressesAreUniqueAndStable(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 3000 {
		pods = append(pods, bare(fmt.Sprintf("p%d", i)))
	}
	endpoints, assumed := assumeAll(t, pods...)
	require.Len(t, assumed, len(pods))
	four, six := netip.MustParsePrefix(convert.AssumedPrefixIPv4), netip.MustParsePrefix(convert.AssumedPrefixIPv6)
	seen := map[netip.Addr]bool{}
	byName := map[string][]netip.Addr{}
	for _, w := range endpoints {
		require.True(t, four.Contains(w.Addresses[0]) && six.Contains(w.Addresses[1]), w.Addresses)
		for _, addr := range w.Addresses {
			require.False(t, seen[addr], addr)
			seen[addr] = true
		}
		byName[w.Name] = w.Addresses
	}
	slices.Reverse(pods)
	again, _ := assumeAll(t, pods...)
	for _, w := range again {
		require.Equal(t, byName[w.Name], w.Addresses, w.Name)
	}
}

// An invented address differs from the addresses of other resources. The caller's resources do not
// change.
func TestAssumeAvoidsRealAddresses(t *testing.T) {
	w, _ := convert.Converter{AssumeNetwork: true}.Pod(bare("web"))
	given := []policy.Resource{w}
	first, _ := convert.Assume(given)
	require.Empty(t, w.Addresses)
	addresses := first[0].(*policy.WorkloadEndpoint).Addresses
	for _, other := range []policy.Resource{
		&policy.WorkloadEndpoint{Namespace: "shop", Name: "x", Addresses: addresses},
		&policy.HostEndpoint{Name: "x", ExpectedIPs: addresses},
		&policy.ServiceBackends{Namespace: "shop", Name: "x", Service: "x", Addresses: addresses},
		&policy.Node{Name: "x", Addresses: []netip.Prefix{netip.PrefixFrom(addresses[0], 32)}},
	} {
		second, assumed := convert.Assume([]policy.Resource{w, other})
		require.Len(t, assumed, 1)
		require.NotEqual(t, addresses[0], second[0].(*policy.WorkloadEndpoint).Addresses[0])
		require.Same(t, other, second[1])
	}
}
