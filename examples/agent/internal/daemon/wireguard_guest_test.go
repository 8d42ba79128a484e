// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package daemon_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/kubernetes/convert"
)

// Two agents on two nodes encrypt the traffic of their pods, once their Node resources have the
// keys that the agents show. Policy applies to the traffic. After a restart, it goes on with the
// same keys.
func TestAgentsEncrypt(t *testing.T) {
	underlay, manifests, resources := nstest.New(t), t.TempDir(), t.TempDir()
	ip(t, underlay, "link", "add", "dev", "net", "type", "bridge")
	ip(t, underlay, "link", "set", "dev", "net", "up")
	write(t, resources, "pool.json", `{"kind": "IPPool", "name": "pods", "cidr": "10.65.0.0/16"}`)
	write(t, manifests, "policy.yaml", namespace+allow("cart", "web", 80))
	pods, nodes, agents := map[string]*netns.Workload{}, map[string]*netns.NS{}, map[string]*running{}
	begin := func(name, state string) {
		agents[name] = startWith(t, nodes[name], manifests, state, map[string]string{
			"node": name, "resources": resources, "wireguard": "true", "wireguard-dir": state,
		})
	}
	setNode := func(name string, keys ...string) {
		var list []string
		for _, k := range keys {
			key, port, _ := strings.Cut(k, ":")
			list = append(list, fmt.Sprintf(`{"publicKey": %q, "port": %s}`, key, port))
		}
		write(t, resources, name+".json", fmt.Sprintf(`{"kind": "Node", "name": %q, "addresses": ["192.0.2.%s/24"],
			"ipv4WireguardAddr": "10.65.%[2]s.0", "wireguardKeys": [%s]}`, name, name[1:], strings.Join(list, ", "),
		))
	}
	for i, app := range []string{"cart", "web"} {
		name, state := fmt.Sprintf("n%d", i+1), t.TempDir()
		node, port := nstest.New(t), "to-"+name
		_, _, err := netns.Veth(netns.End{NS: node, Name: "eth0"}, netns.End{NS: underlay, Name: port})
		require.NoError(t, err)
		ip(t, underlay, "link", "set", "dev", port, "master", "net")
		require.NoError(t, node.AddAddr("eth0", netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", i+1))))
		require.NoError(t, node.SetSysctl("net/ipv4/conf/eth0/forwarding", "1"))
		address := fmt.Sprintf("10.65.%d.1", i+1)
		pods[app] = nstest.NewWorkload(t, node, convert.InterfaceName("shop", app), address)
		write(t, manifests, app+".yaml", strings.ReplaceAll(pod(app, address), "nodeName: n,", "nodeName: "+name+","))
		write(t, resources, "block"+name+".json",
			fmt.Sprintf(`{"kind": "Block", "cidr": "10.65.%d.0/26", "node": %q}`, i+1, name))
		setNode(name)
		nodes[name] = node
		begin(name, state)
	}
	const text = "a secret answer"
	web := netip.MustParseAddr("10.65.2.1")
	for _, port := range []uint16{80, 81} {
		nstest.Serve(t, pods["web"].NS, netip.AddrPortFrom(web, port).String(), text)
	}
	answer := func() {
		t.Helper()
		require.Equal(t, text, nstest.Answer(t, pods["cart"].NS, "tcp", netip.AddrPortFrom(web, 80).String()))
	}
	for name, a := range agents {
		a.until(t, well)
		a.log.await(t, "announce these WireGuard keys")
		setNode(name, get[api.Status](t, a, "/v1/status").Wireguard.Keys...)
	}
	encrypts := func(name, block string) {
		t.Helper()
		require.Eventually(t, func() bool {
			var out []byte
			_ = nodes[name].Do(func() error { // ip fails while the table does not exist
				out, _ = exec.Command("ip", "route", "show", "table", "22361").CombinedOutput()
				return nil
			})
			return strings.Contains(string(out), block+" dev wg.way")
		}, 2*waitTimeout, 50*time.Millisecond, "%s to %s; log:\n%s", name, block, agents[name].log)
	}
	encrypts("n1", "10.65.2.0/26")
	encrypts("n2", "10.65.1.0/26")
	capture := nstest.NewCapture(t, underlay, "to-n1")
	answer()
	require.True(t, nstest.Dropped(t, pods["cart"].NS, netip.AddrPortFrom(web, 81).String()), "policy")
	state := agents["n1"].state
	agents["n1"].end(t)
	answer()
	begin("n1", state)
	agents["n1"].until(t, well)
	encrypts("n1", "10.65.2.0/26")
	answer()
	var outer int
	for _, packet := range capture.Packets() {
		require.NotContains(t, string(packet), text)
		require.False(t, bytes.Contains(packet, web.AsSlice()), "%x", packet)
		if bytes.Contains(packet, []byte{0xca, 0x6c, 0xca, 0x6c}) { // from UDP port 51820 to 51820
			outer++
		}
	}
	require.NotZero(t, outer)
	for _, a := range agents {
		a.end(t)
	}
}
