// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// form is a configuration of the Renderer.
type form struct {
	name      string
	config    render.Config
	flowtable nft.FlowtableConfig
}

// forms returns the configurations that the benchmarks compare, each a column of their table.
func forms() []form {
	return []form{
		{name: "chains", config: render.Config{Classes: nfttest.Chains()}},
		{name: "lookups"},
	}
}

// judged is the world of a rig in which one endpoint has policies of five rules each. Only the last
// two rules of the last policy allow the measured packets. The very first rule allows markers.
//
// A rule has a role or a team of peers, a protocol and a port. Each of 2,000 other peers has one of
// 1,000 roles and one of 37 teams.
type judged struct {
	policies int
	// egress is set if policy applies to the client's egress, otherwise to the server's ingress. If
	// host is set, a host endpoint at the client's side has the policy of that kind, which applies
	// to the client. If local is set, the client is a workload of the node too, without policies.
	egress, local bool
	host          hostKind
	// bridged is set if both are ports of a bridge; local is set then.
	bridged bool
	// If same is set, all rules select the peer, each with its own port.
	same bool
}

// hostKind is a kind of policy of host endpoints that applies to forwarded packets; the empty value
// means policy of workloads.
type hostKind string

const (
	none      hostKind = ""
	forwarded hostKind = "host"
	untracked hostKind = "untracked"
	preDNAT   hostKind = "pre-dnat"
)

// interfaces returns the names of the router's interfaces: only an endpoint with policy has a
// workload interface.
func (w judged) interfaces() (in, out string) {
	switch {
	case w.egress:
		return "way1", "eth1"
	case w.host != none:
		return "eth1", "eth2"
	case w.local:
		return "way0", "way1"
	}
	return "eth1", "way1"
}

// rule returns the n-th of all rules.
func (w judged) rule(n int) policy.Rule {
	peer, port := fmt.Sprintf("role == 'r%d'", n%1000), 1000+n/1000*5+n%5
	switch last := w.policies * 5; {
	case n == last-1:
		peer, port = "role == 'peer'", rigUDP
	case n == last-2:
		peer, port = "role == 'peer'", rigTCP
	case n == 0:
		peer, port = "role == 'peer'", rigMarker
	case n%5 == 2:
		peer, port = fmt.Sprintf("team == 't%d'", n%37), 9000+n%11
	}
	if w.same && n > 0 && n < w.policies*5-2 {
		peer, port = "role == 'peer'", 20_000+n
	}
	r := policy.Rule{
		Action: policy.Allow, Protocol: policy.ProtocolUDP,
		Destination: policy.EntityRule{Ports: nfttest.PortList(policy.PortNumber(uint16(port)))},
	}
	if port == rigTCP {
		r.Protocol = policy.ProtocolTCP
	}
	if w.egress {
		r.Destination.Selector = peer
	} else {
		r.Source.Selector = peer
	}
	return r
}

// policy returns the i-th policy. Policies apply in order.
func (w judged) policy(i int) *policy.Policy {
	p := &policy.Policy{
		Name: fmt.Sprintf("p-%05d", i), Selector: "app == 'judged'", Types: []policy.Type{policy.Ingress},
		ApplyOnForward: w.host != none, DoNotTrack: w.host == untracked, PreDNAT: w.host == preDNAT,
	}
	var rules []policy.Rule
	for j := range 5 {
		rules = append(rules, w.rule(5*i+j))
	}
	p.Ingress = rules
	if w.egress {
		p.Types, p.Ingress, p.Egress = []policy.Type{policy.Egress}, nil, rules
	}
	return p
}

// endpoints returns the endpoint with policy, the one at the other side of the router, and the
// other peers.
func (w judged) endpoints() []*policy.WorkloadEndpoint {
	var clients []netip.Addr
	for a := rigClient(); len(clients) <= rigSources; a = a.Next() {
		clients = append(clients, a)
	}
	judged := &policy.WorkloadEndpoint{
		Name: "judged", Node: "here", Interface: "way1", Labels: map[string]string{"app": "judged"},
		Profiles: []string{"open"},
	}
	peer := &policy.WorkloadEndpoint{
		Name: "peer", Node: "there", Interface: "way1", Labels: map[string]string{"role": "peer"},
	}
	judged.Addresses, peer.Addresses = []netip.Addr{rigServer(), rigServer().Next()}, clients
	if w.egress {
		judged.Addresses, peer.Addresses = peer.Addresses, judged.Addresses
	}
	if w.local {
		peer.Node, peer.Interface, peer.Profiles = judged.Node, "way0", judged.Profiles
	}
	list := []*policy.WorkloadEndpoint{judged, peer}
	if w.host != none {
		list = list[1:]
	}
	for k := range 2000 {
		list = append(list, &policy.WorkloadEndpoint{
			Name: fmt.Sprintf("other-%d", k), Node: "there", Interface: fmt.Sprintf("way%d", k+2),
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 3, byte(k >> 8), byte(k)})},
			Labels:    map[string]string{"role": fmt.Sprintf("r%d", k%1000), "team": fmt.Sprintf("t%d", k%37)},
		})
	}
	return list
}

// program makes a rig whose node has the world programmed, in a form. It returns the graph and the
// dataplane too, for changes.
func (w judged) program(tb testing.TB, f form) (*rig, *calcgraph.Graph, *nft.Dataplane) {
	tb.Helper()
	in, out := w.interfaces()
	r := newRig(tb, in, out)
	if w.bridged {
		r.bridge(tb)
		f.config.Bridges = []string{"br0"}
	}
	graph, err := calcgraph.New(calcgraph.Config{Node: "here"})
	require.NoError(tb, err)
	set := func(r policy.Resource) { graph.Update(policy.Update{Key: r.Key(), Resource: r}) }
	set(&policy.Profile{
		Name: "open", Ingress: []policy.Rule{{Action: policy.Allow}}, Egress: []policy.Rule{{Action: policy.Allow}},
	})
	for _, e := range w.endpoints() {
		set(e)
	}
	for i := range w.policies {
		set(w.policy(i))
	}
	if w.host == untracked || w.host == preDNAT { // later policy would allow them
		rest := w.policy(w.policies)
		rest.Ingress = []policy.Rule{{Action: policy.Deny}}
		set(rest)
	}
	if w.host != none {
		set(&policy.HostEndpoint{
			Name: "judged", Node: "here", InterfaceName: in, Labels: map[string]string{"app": "judged"},
		})
	}
	graph.InSync()
	d := openWith(tb, r.node, nft.Config{Renderer: f.config, Flowtable: f.flowtable})
	require.NoError(tb, d.Apply(tb.Context(), graph.Flush()))
	return r, graph, d
}
