// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// clusterServices translates as kube-proxy does: the service web to the pod way1, and the service
// kubernetes to a pod with host networking of this node. A connection of a pod to itself gets the
// address of the node.
const clusterServices = `
table ip kube-proxy {
	chain web { ip saddr 10.99.0.1 mark set mark or 0x4000; meta l4proto tcp dnat to 10.99.0.1:80; }
	chain services {
		ip daddr 10.96.0.10 tcp dport 8080 jump web
		ip daddr 10.96.0.1 tcp dport 443 dnat to 192.0.2.1:80
	}
	chain prerouting { type nat hook prerouting priority dstnat; jump services; }
	chain postrouting { type nat hook postrouting priority srcnat; mark and 0x4000 == 0x4000 masquerade; }
}
table ip6 kube-proxy {
	chain web { ip6 saddr fd00:99::1 mark set mark or 0x4000; meta l4proto tcp dnat to [fd00:99::1]:80; }
	chain services {
		ip6 daddr fd00:96::10 tcp dport 8080 jump web
		ip6 daddr fd00:96::1 tcp dport 443 dnat to [2001:db8::1]:80
	}
	chain prerouting { type nat hook prerouting priority dstnat; jump services; }
	chain postrouting { type nat hook postrouting priority srcnat; mark and 0x4000 == 0x4000 masquerade; }
}
`

// newKubernetesNode is a node with three pods, a pod with host networking that serves port 80, and
// services.
func newKubernetesNode(t *testing.T, classes render.ClassesConfig, host policy.HostConfig) *hostNetwork {
	t.Helper()
	n := &hostNetwork{network: newNetwork(t), at: dptest.NewState()}
	load(t, n.node, clusterServices)
	var l net.Listener
	require.NoError(t, n.node.Do(func() (err error) { l, err = net.Listen("tcp", ":80"); return err }))
	n.echo(t, l)
	n.dp = open(t, n.node, render.Config{Classes: classes, Host: host})
	return n
}

// reachesBoth calls reaches for an address of each family.
func (n *hostNetwork) reachesBoth(t *testing.T, want bool, from int, to4, to6 string, port uint16) {
	t.Helper()
	n.reaches(t, want, from, to4, port)
	n.reaches(t, want, from, to6, port)
}

// policedPod is a state in which one pod has a NetworkPolicy for one direction, with these rules.
func policedPod(name string, ingress bool, rules ...dataplane.Rule) dptest.State {
	s := shop()
	p := &dataplane.Policy{Ingress: rules}
	if !ingress {
		p = &dataplane.Policy{Egress: rules}
	}
	tiers := tierOf(s, "np", policy.Deny, p)
	return edit(s, name, func(e *dataplane.Endpoint) {
		if ingress {
			e.Ingress = tiers
		} else {
			e.Egress = tiers
		}
	})
}

// The processes of the node, as kubelet with its probes, reach a pod under a policy that denies
// everything, unless HostToEndpointAction says otherwise (S104).
func TestKubernetesProbeOfPod(t *testing.T) { nfttest.EachFormInParallel(t, testKubernetesProbeOfPod) }

func testKubernetesProbeOfPod(t *testing.T, classes render.ClassesConfig) {
	for action, want := range map[policy.HostAction]bool{"": true, policy.HostReturn: false} {
		n := newKubernetesNode(t, classes, policy.HostConfig{HostToEndpointAction: action})
		n.apply(t, policedPod("way1", true))
		n.reachesBoth(t, want, -1, "10.99.0.1", "fd00:99::1", 80)
		n.reachesBoth(t, false, 1, "10.99.0.1", "fd00:99::1", 80)
		n.apply(t, shop())
		n.reachesBoth(t, true, 1, "10.99.0.1", "fd00:99::1", 80)
	}
}

// A pod reaches pods with host networking of its own node, also by the service kubernetes. It does
// so if EndpointToHostAction is Accept or HostReturn, and the pod's egress policy allows it (S105).
func TestKubernetesPodToOwnNode(t *testing.T) {
	nfttest.EachFormInParallel(t, testKubernetesPodToOwnNode)
}

func testKubernetesPodToOwnNode(t *testing.T, classes render.ClassesConfig) {
	for action, want := range map[policy.HostAction]bool{
		"": false, policy.HostDrop: false, policy.HostAccept: true, policy.HostReturn: true,
	} {
		n := newKubernetesNode(t, classes, policy.HostConfig{EndpointToHostAction: action})
		for _, s := range []dptest.State{shop(), policedPod("way1", true)} {
			n.apply(t, s)
			n.reachesBoth(t, want, 0, "192.0.2.1", "2001:db8::1", 80)
			n.reachesBoth(t, want, 0, "10.96.0.1", "fd00:96::1", 443)
		}
		n.apply(t, policedPod("way1", false))
		n.reachesBoth(t, false, 0, "192.0.2.1", "2001:db8::1", 80)
		n.reachesBoth(t, false, 0, "10.96.0.1", "fd00:96::1", 443)
	}
}

// A pod reaches itself by its own service. Its policy sees its own address, before it is translated
// to the node's address (S103).
func TestKubernetesPodToItself(t *testing.T) {
	nfttest.EachFormInParallel(t, testKubernetesPodToItself)
}

func testKubernetesPodToItself(t *testing.T, classes render.ClassesConfig) {
	n := newKubernetesNode(t, classes, policy.HostConfig{})
	n.apply(t, shop())
	n.reachesBoth(t, true, 0, "10.96.0.10", "fd00:96::10", 8080)
	n.apply(t, policedPod("way1", true))
	n.reachesBoth(t, false, 0, "10.96.0.10", "fd00:96::10", 8080)
	n.reachesBoth(t, true, 0, "10.99.0.1", "fd00:99::1", 80) // these packets do not leave the pod
	n.apply(t, policedPod("way1", true, fromNets("10.99.0.1/32", "fd00:99::1/128")...))
	n.reachesBoth(t, true, 0, "10.96.0.10", "fd00:96::10", 8080)
	n.reachesBoth(t, false, 1, "10.96.0.10", "fd00:96::10", 8080)
}

// Egress policy sees the pod behind a service, and not the address of the service (S76). Ingress
// policy sees the client.
func TestKubernetesServiceAddress(t *testing.T) {
	nfttest.EachFormInParallel(t, testKubernetesServiceAddress)
}

func testKubernetesServiceAddress(t *testing.T, classes render.ClassesConfig) {
	n := newKubernetesNode(t, classes, policy.HostConfig{})
	for _, c := range []struct {
		what  string
		state dptest.State
		want  bool
	}{
		{"no policy", shop(), true},
		{"egress to the pod", policedPod("way2", false, toNets("10.99.0.1/32", "fd00:99::1/128")...), true},
		{"egress to the service", policedPod("way2", false, toNets("10.96.0.0/16", "fd00:96::/64")...), false},
		{"egress to the port of the pod", policedPod("way2", false, tcpTo(policy.Allow, 80)), true},
		{"egress to the port of the service", policedPod("way2", false, tcpTo(policy.Allow, 8080)), false},
		{"ingress from the client", policedPod("way1", true, fromNets("10.99.0.2/32", "fd00:99::2/128")...), true},
		{"ingress from another", policedPod("way1", true, fromNets("10.99.0.3/32", "fd00:99::3/128")...), false},
	} {
		n.apply(t, c.state)
		t.Log(c.what)
		n.reachesBoth(t, c.want, 1, "10.96.0.10", "fd00:96::10", 8080)
	}
}

// fromNets returns rules that allow packets from each prefix, toNets rules that allow packets to
// it.
func fromNets(nets ...string) []dataplane.Rule {
	return rulesOfNets(nets, func(r *dataplane.Rule) *dataplane.Match { return &r.Source })
}

func toNets(nets ...string) []dataplane.Rule {
	return rulesOfNets(nets, func(r *dataplane.Rule) *dataplane.Match { return &r.Destination })
}

func rulesOfNets(nets []string, side func(*dataplane.Rule) *dataplane.Match) (rules []dataplane.Rule) {
	for i, n := range nets {
		r := dataplane.Rule{ID: fmt.Sprint(i), Action: policy.Allow}
		side(&r).Nets = []netip.Prefix{netip.MustParsePrefix(n)}
		rules = append(rules, r)
	}
	return rules
}
