// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// portNode is a node with a bridge. web and cart are ports of the bridge, with addresses of its
// subnet. far is routed.
type portNode struct {
	node *netns.NS
	dir  string
	pods map[string]*netns.NS
}

func portAddress(name string) string {
	return map[string]string{"web": "10.9.0.1", "cart": "10.9.0.2", "far": "10.0.0.3"}[name]
}

func newPortNode(t *testing.T) *portNode {
	t.Helper()
	b := &portNode{node: nstest.New(t), dir: t.TempDir(), pods: map[string]*netns.NS{}}
	b.ip(t, b.node, "link add name br0 type bridge forward_delay 0")
	b.ip(t, b.node, "link set dev br0 up")
	b.ip(t, b.node, "addr add 10.9.0.254/24 dev br0")
	for path, value := range map[string]string{
		"net/bridge/bridge-nf-call-iptables": "1", "net/ipv4/conf/br0/forwarding": "1",
	} {
		require.NoError(t, b.node.SetSysctl(path, value))
	}
	for _, name := range []string{"web", "cart"} {
		ns, iface := nstest.New(t), convert.InterfaceName("shop", name)
		_, _, err := netns.Veth(netns.End{NS: b.node, Name: iface}, netns.End{NS: ns, Name: "eth0"})
		require.NoError(t, err)
		b.ip(t, b.node, "link set dev "+iface+" master br0")
		b.ip(t, ns, "addr add "+portAddress(name)+"/24 dev eth0")
		b.ip(t, ns, "route add default via 10.9.0.254")
		b.pods[name] = ns
	}
	b.pods["far"] = nstest.NewWorkload(t, b.node, convert.InterfaceName("shop", "far"), portAddress("far")).NS
	all := namespace
	for name, ns := range b.pods {
		all += pod(name, portAddress(name))
		nstest.Serve(t, ns, ":80", name)
	}
	write(t, b.dir, "pods.yaml", all)
	return b
}

func (b *portNode) ip(t *testing.T, ns *netns.NS, args string) (out string) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		text, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
		out = string(text)
		return err
	}), "ip %s", args)
	return out
}

// denyIngress is a policy that denies all ingress of all pods.
const denyIngress = `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: deny}
spec: {podSelector: {}, policyTypes: [Ingress]}
`

// require requires that a TCP connection from one pod to port 80 of another succeeds, or that its
// packets are dropped.
func (b *portNode) require(t *testing.T, from, to string, allowed bool) {
	t.Helper()
	address := portAddress(to) + ":80"
	if allowed {
		require.Equal(t, to, nstest.Answer(t, b.pods[from], "tcp", address), "%s to %s", from, to)
	} else {
		require.True(t, nstest.Dropped(t, b.pods[from], address), "%s to %s", from, to)
	}
}

// verified requires that verify finds no difference, and returns its text.
func verified(t *testing.T, r *running) string {
	t.Helper()
	var last api.Verification
	require.NoError(t, api.Stream(t.Context(), r.Client, "/v1/verify?limit=10", func(v api.Verification) error {
		last = v
		return nil
	}))
	require.Empty(t, last.Error)
	require.True(t, last.Last)
	require.False(t, last.Differs, last.Text)
	return last.Text
}

// S171: policy decides about the connections between two pods on a configured bridge and a routed
// pod, in all directions. The agent makes no routes to the bridged pods, and they are up. verify
// proves their packets.
func TestPodsOnBridge(t *testing.T) {
	b := newPortNode(t)
	names := []string{"web", "cart", "far"}
	r := startWith(t, b.node, b.dir, t.TempDir(), map[string]string{"bridges": "br0"})
	var before *ruleset.Table
	r.until(t, func(s pipeline.State) bool {
		before = s.Table()
		return well(s) && s.InSync
	})
	require.Equal(t, map[string]int{"up": 3}, get[api.Status](t, r, "/v1/status").Endpoints)
	each := func(allowed func(from, to string) bool) {
		t.Helper()
		for _, from := range names {
			for _, to := range names {
				if from != to {
					b.require(t, from, to, allowed(from, to))
				}
			}
		}
	}
	each(func(string, string) bool { return true })
	ours := func() string { return b.ip(t, b.node, "route show proto 219") }
	require.Equal(t, "10.0.0.3 dev "+convert.InterfaceName("shop", "far")+" scope link",
		strings.Join(strings.Fields(ours()), " "))
	require.Contains(t, verified(t, r), "of 3 endpoints")

	for _, pair := range [][2]string{{"cart", "web"}, {"far", "web"}, {"web", "far"}} {
		write(t, b.dir, "policy.yaml", denyIngress+allow(pair[0], pair[1], 80))
		r.until(t, func(s pipeline.State) bool {
			if !well(s) || before.Equal(s.Table()) {
				return false
			}
			before = s.Table()
			return true
		})
		each(func(from, to string) bool { return [2]string{from, to} == pair })
		require.Contains(t, verified(t, r), "policy and table agree")
	}
}
