// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/probe"
	"github.com/wayleave/wayleave/policy/verdict"
)

func pod(name, app string, addrs ...string) *policy.WorkloadEndpoint {
	w := &policy.WorkloadEndpoint{Namespace: "shop", Name: name, Node: "n-" + name, Interface: "if-" +
		name, Labels: map[string]string{"app": app}}
	for _, a := range addrs {
		w.Addresses = append(w.Addresses, netip.MustParseAddr(a))
	}
	return w
}

func nets(texts ...string) policy.Nets {
	var out policy.Nets
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// mention returns a policy with networks in all fields of a rule that have networks.
func mention(source, notSource, destination, notDestination policy.Nets) *policy.Policy {
	return &policy.Policy{Name: "p", Ingress: []policy.Rule{{
		Action:      policy.Allow,
		Source:      policy.EntityRule{Nets: source, NotNets: notSource},
		Destination: policy.EntityRule{Nets: destination, NotNets: notDestination},
	}}}
}

func groups(worlds ...verdict.World) [][]string {
	var out [][]string
	for _, g := range probe.NewPartition(worlds...).Groups(probe.NewIndex(worlds[0]).Endpoints()) {
		var names []string
		for _, p := range g {
			names = append(names, p.Name)
		}
		out = append(out, names)
	}
	return out
}

func TestGroups(t *testing.T) {
	replicas := func() verdict.World {
		w := verdict.World{}
		w.Set(pod("a", "web", "10.0.0.1"), pod("b", "web", "10.0.0.2"), pod("c", "web", "10.0.0.3"))
		return w
	}
	together := [][]string{{"shop/a", "shop/b", "shop/c"}}
	apart := [][]string{{"shop/a", "shop/b"}, {"shop/c"}}
	for _, row := range []struct {
		name string
		set  policy.Resource
		want [][]string
	}{
		{"replicas", &policy.Profile{Name: "x"}, together},
		{"label", pod("c", "db", "10.0.0.3"), apart},
		{"family", pod("c", "web", "fd00::3"), apart},
		{"another pod's address", pod("d", "db", "10.0.0.3"), append(apart, []string{"shop/d"})},
		{"source", mention(nets("10.0.0.3/32"), nil, nil, nil), apart},
		{"not source", mention(nil, nets("10.0.0.3/32"), nil, nil), apart},
		{"destination", mention(nil, nil, nets("10.0.0.3/32"), nil), apart},
		{"not destination", mention(nil, nil, nil, nets("10.0.0.3/32")), apart},
		{"profile", &policy.Profile{Name: "x", Egress: mention(nets("10.0.0.3/32"), nil, nil, nil).Ingress}, apart},
		{"wide net", mention(nets("10.0.0.0/8"), nil, nil, nil), together},
		{"network set", &policy.NetworkSet{Name: "x", Nets: nets("10.0.0.3/32")}, apart},
		{"service", &policy.ServiceBackends{
			Namespace: "shop", Name: "x", Service: "x", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.3")},
		}, apart},
		{"service of all", &policy.ServiceBackends{Namespace: "shop", Name: "x", Service: "x", Addresses: []netip.Addr{
			netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3"),
		}}, together},
		{
			"host endpoint",
			&policy.HostEndpoint{Name: "x", Node: "n", ExpectedIPs: []netip.Addr{netip.MustParseAddr("10.0.0.3")}},
			apart,
		},
		{"node", &policy.Node{Name: "x", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.3/24")}}, apart},
	} {
		w := replicas()
		w.Set(row.set)
		require.Equal(t, row.want, groups(w), row.name)
		require.ElementsMatch(t, row.want, groups(w, replicas(), w)[:len(row.want)], "%s in one of several worlds",
			row.name)
	}
}

// For a service with several ServiceBackends, the ports of a pod matter, but not which
// ServiceBackends has the pod.
func TestGroupsOfServices(t *testing.T) {
	part := func(name, addr string, port uint16) policy.Resource {
		return &policy.ServiceBackends{
			Namespace: "shop", Name: name, Service: "x", Addresses: []netip.Addr{netip.MustParseAddr(addr)},
			Ports: []policy.ServicePort{{Protocol: policy.ProtocolTCP, Port: port}},
		}
	}
	w := verdict.World{}
	w.Set(pod("a", "web", "10.0.0.1"), pod("b", "web", "10.0.0.2"), pod("c", "web", "10.0.0.3"))
	w.Set(part("1", "10.0.0.1", 80), part("2", "10.0.0.2", 80), part("3", "10.0.0.3", 81))
	require.Equal(t, [][]string{{"shop/a", "shop/b"}, {"shop/c"}}, groups(w))
	outside := verdict.World{}
	outside.Set(part("1", "10.0.0.9", 80))
	var names []string
	for _, p := range probe.NewPartition(outside).Outside() {
		names = append(names, p.Name)
	}
	require.Contains(t, names, "10.0.0.9")
}

// Two pods that share an address are in a group each.
func TestGroupsOfSharedAddresses(t *testing.T) {
	w := verdict.World{}
	w.Set(pod("a", "web", "10.0.0.1"), pod("b", "web", "10.0.0.1"), pod("c", "web", "10.0.0.3"))
	require.Equal(t, [][]string{{"shop/a"}, {"shop/b"}, {"shop/c"}}, groups(w))
}

func TestOutside(t *testing.T) {
	for _, row := range []struct {
		name string
		nets policy.Nets
		pods []string
		want []string
	}{
		{"nothing", nil, nil, []string{
			"203.0.113.1 (any address not mentioned)", "2001:db8:ffff::1 (any address not mentioned)",
		}},
		{"one", nets("198.51.100.0/24"), nil, []string{
			"203.0.113.1 (any address not mentioned)", "198.51.100.1 (198.51.100.0/24)",
			"2001:db8:ffff::1 (any address not mentioned)",
		}},
		{"all", nets("0.0.0.0/0", "::/0"), nil, []string{"203.0.113.1 (0.0.0.0/0)", "2001:db8:ffff::1 (::/0)"}},
		{"nested", nets("10.0.0.0/30", "10.0.0.0/31", "10.0.0.1/32"), nil, []string{
			"203.0.113.1 (any address not mentioned)", "10.0.0.2 (10.0.0.0/30)", "10.0.0.0 (10.0.0.0/31)", "10.0.0.1",
			"2001:db8:ffff::1 (any address not mentioned)",
		}},
		{"filled by pods", nets("10.0.0.0/31", "10.0.0.4/32",
			"10.0.0.5/32"), []string{"10.0.0.0", "10.0.0.1", "10.0.0.4"}, []string{
			"203.0.113.1 (any address not mentioned)", "10.0.0.5", "2001:db8:ffff::1 (any address not mentioned)",
		}},
		{"filled by narrower", nets("10.0.0.0/31", "10.0.0.0/32", "10.0.0.1/32"), nil, []string{
			"203.0.113.1 (any address not mentioned)", "10.0.0.0", "10.0.0.1",
			"2001:db8:ffff::1 (any address not mentioned)",
		}},
		{"last of all", nets("0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/3", "255.255.255.255/32"), nil, []string{
			"224.0.0.0 (any address not mentioned)", "0.0.0.1 (0.0.0.0/1)", "128.0.0.1 (128.0.0.0/2)",
			"192.0.0.1 (192.0.0.0/3)", "255.255.255.255", "2001:db8:ffff::1 (any address not mentioned)",
		}},
	} {
		w := verdict.World{}
		w.Set(mention(row.nets, nil, nil, nil))
		for i, addr := range row.pods {
			w.Set(pod(string(rune('a'+i)), "web", addr))
		}
		var got []string
		for _, p := range probe.NewPartition(w).Outside() {
			got = append(got, p.Name)
		}
		require.Equal(t, row.want, got, row.name)
	}
}
