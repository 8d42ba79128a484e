// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// onPorts returns a Dataplane of a namespace whose interfaces p1 and p2 are ports of br0.
func onPorts(t *testing.T, ns *netns.NS, edit ...func(*Config)) *Dataplane {
	t.Helper()
	cfg := Config{
		Renderer: render.Config{Bridges: []string{"br0"}}, NetNS: ns.FD(),
		Interfaces: func() (map[string]render.Interface, error) {
			port := render.Interface{Master: render.Master{Name: "br0", Kind: "bridge"}}
			local := []netip.Addr{netip.MustParseAddr("fe80::b0"), netip.MustParseAddr("10.0.0.254")}
			return map[string]render.Interface{"p1": port, "p2": port, "br0": {Addresses: local}}, nil
		},
	}
	for _, e := range edit {
		e(&cfg)
	}
	d, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func onPort(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "ns", Name: name}
}

// have returns a batch that gives the endpoints at p1 and p2 addresses. An empty list removes the
// endpoint.
func have(p1, p2 []string) dataplane.Batch {
	b := dataplane.Batch{Events: []dataplane.Event{}}
	for i, texts := range [][]string{p1, p2} {
		name := []string{"p1", "p2"}[i]
		if len(texts) == 0 {
			b.Events = append(b.Events, &dataplane.EndpointRemove{Key: onPort(name)})
			continue
		}
		e := &dataplane.Endpoint{Interface: name}
		for _, text := range texts {
			e.Addresses = append(e.Addresses, netip.MustParseAddr(text))
		}
		b.Events = append(b.Events, &dataplane.EndpointUpdate{Key: onPort(name), Endpoint: e})
	}
	return b
}

func inSync(b dataplane.Batch) dataplane.Batch {
	b.Events = append(b.Events, &dataplane.InSync{})
	return b
}

// elementsOf returns the elements of sets of the port table that have an address, as "set port" or
// "set".
func (p *portTable) elementsOf(address string) (out []string) {
	for _, s := range p.applier.Table().Sets {
		for _, e := range s.Elements {
			if string(e.Key[len(e.Key)-1]) != string(ruleset.Addr(netip.MustParseAddr(address))) {
				continue
			}
			text := s.Name
			if len(e.Key) > 1 {
				text += " " + strings.TrimRight(string(e.Key[0]), "\x00")
			}
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// S168, S171: while the main table still has the former owner of a moved address, neither port
// allows the address. Other ports never allow it, also when no endpoint has it any more.
func TestMovedAddressIsAllowedAfterMainTable(t *testing.T) {
	ns := nstest.New(t)
	d := onPorts(t, ns)
	require.NoError(t, d.Apply(t.Context(), inSync(have([]string{"10.0.0.1", "10.0.0.9"}, []string{"10.0.0.2"}))))
	require.Equal(t, []string{"addresses4 p1", "owned4"}, d.ports.elementsOf("10.0.0.9"))
	step := func(b dataplane.Batch) {
		d.ports.Update(b)
		require.Empty(t, d.ports.prepare(t.Context(), d.renderer, false))
	}
	step(have([]string{"10.0.0.1"}, []string{"10.0.0.2", "10.0.0.9", "10.0.0.8"}))
	require.Equal(t, []string{"owned4"}, d.ports.elementsOf("10.0.0.9"))
	require.Equal(t, []string{"addresses4 p2", "owned4"}, d.ports.elementsOf("10.0.0.8"), "a new address")
	step(have([]string{"10.0.0.1"}, []string{"10.0.0.2", "10.0.0.9"}))
	require.Equal(t, []string{"owned4"}, d.ports.elementsOf("10.0.0.9"), "the main table was not changed yet")
	require.Equal(t, []string{"owned4"}, d.ports.elementsOf("10.0.0.8"), "removed")
	require.Empty(t, d.ports.admit(t.Context()))
	require.Equal(t, []string{"addresses4 p2", "owned4"}, d.ports.elementsOf("10.0.0.9"))
	require.Empty(t, d.ports.elementsOf("10.0.0.8"))
	require.Empty(t, d.ports.moving)

	step(have([]string{"10.0.0.1"}, nil))
	require.Equal(t, []string{"owned4"}, d.ports.elementsOf("10.0.0.9"), "the main table still has the endpoint")
	require.True(t, d.ports.programmed["p2"].Drop, "a port without prefix would become like an uplink")
	require.Empty(t, d.ports.admit(t.Context()))
	require.Empty(t, d.ports.elementsOf("10.0.0.9"))

	require.NoError(t, d.Close()) // another process reads the owners from the table in the kernel
	again := onPorts(t, ns)
	again.ports.Update(have([]string{"10.0.0.5"}, []string{"10.0.0.1"}))
	require.NoError(t, again.interfaces.Update(again.renderer, true))
	again.renderer.Update(have([]string{"10.0.0.5"}, []string{"10.0.0.1"}))
	require.NoError(t, again.interfaces.Update(again.renderer, true))
	require.Empty(t, again.ports.prepare(t.Context(), again.renderer, false))
	require.Equal(t, []string{"owned4"}, again.ports.elementsOf("10.0.0.1"))
	require.Equal(t, []string{"addresses4 p1", "owned4"}, again.ports.elementsOf("10.0.0.5"))
	require.Empty(t, again.ports.admit(t.Context()))
	require.Equal(t, []string{"addresses4 p2", "owned4"}, again.ports.elementsOf("10.0.0.1"))
}

// A port that cannot be bound is at fault, and its packets drop. Other ports are not affected.
func TestPortThatCannotBeBound(t *testing.T) {
	d := onPorts(t, nstest.New(t))
	require.NoError(t, d.Apply(t.Context(), inSync(have([]string{"10.0.0.1"}, nil))))
	opened := func(address string) (out bool) {
		want := string(ruleset.Addr(netip.MustParseAddr(address)))
		for _, s := range d.Table().Sets {
			for _, e := range s.Elements {
				out = out || s.Verdicts && string(e.Key[len(e.Key)-1]) == want
			}
		}
		return out
	}
	require.True(t, opened("10.0.0.1"))
	require.NoError(t, d.ports.applier.Close())
	for _, b := range []dataplane.Batch{have([]string{"10.0.0.1"}, []string{"10.0.0.2"}), {}} {
		err := d.Apply(t.Context(), b)
		objects, general := dataplane.ApplyErrors(err)
		require.False(t, general, "%v", err)
		require.Contains(t, objects, onPort("p2"))
		require.ErrorContains(t, objects[onPort("p2")], "bind the port of the bridge")
		require.False(t, opened("10.0.0.2"))
		require.True(t, opened("10.0.0.1"), "the port is bound already")
	}
}

// The packets of endpoints with the same address or port drop, as in the main table. So do those of
// an endpoint with an invalid MAC address.
func TestPortsAtFault(t *testing.T) {
	d := onPorts(t, nstest.New(t))
	require.Error(t, d.Apply(t.Context(), inSync(have([]string{"10.0.0.1"}, []string{"10.0.0.1", "10.0.0.2"}))))
	require.Equal(t, []string{"owned4"}, d.ports.elementsOf("10.0.0.1"))
	require.Equal(t, []string{"owned4"}, d.ports.elementsOf("10.0.0.2"))
	require.NoError(t, d.Apply(t.Context(), have([]string{"10.0.0.1"}, []string{"10.0.0.2"})))
	require.Equal(t, []string{"addresses4 p1", "owned4"}, d.ports.elementsOf("10.0.0.1"))
	bad := have([]string{"10.0.0.1"}, nil)
	bad.Events[0].(*dataplane.EndpointUpdate).Endpoint.MAC = "02:00:00:00:00:01:02:03"
	for _, b := range []dataplane.Batch{bad, {}} {
		require.ErrorContains(t, d.Apply(t.Context(), b), "is not a MAC address of six bytes")
		require.Equal(t, []string{"owned4"}, d.ports.elementsOf("10.0.0.1"))
	}
}

// A port is bound also if its master was unknown when its endpoint was added, or became a bridge
// later.
func TestPortWhoseMasterChanges(t *testing.T) {
	var broken error
	master := render.Master{Name: "br0", Kind: "bridge"}
	d := onPorts(t, nstest.New(t), func(cfg *Config) {
		cfg.Interfaces = func() (map[string]render.Interface, error) {
			return map[string]render.Interface{"p1": {Master: master}, "br0": {}}, broken
		}
	})
	broken = errors.New("broken")
	require.ErrorIs(t, d.Apply(t.Context(), inSync(have([]string{"10.0.0.1"}, nil))), broken)
	require.Empty(t, d.ports.elementsOf("10.0.0.1"))
	broken = nil
	require.NoError(t, d.Apply(t.Context(), dataplane.Batch{}))
	require.Equal(t, []string{"addresses4 p1", "owned4"}, d.ports.elementsOf("10.0.0.1"))
	master = render.Master{}
	require.NoError(t, d.Resync(t.Context()))
	require.Empty(t, d.ports.elementsOf("10.0.0.1"))
	master = render.Master{Name: "br0", Kind: "bridge"}
	require.NoError(t, d.Resync(t.Context()))
	require.Equal(t, []string{"addresses4 p1", "owned4"}, d.ports.elementsOf("10.0.0.1"))
}

// Plan, Compare, Resync and Teardown comprise the table of family bridge.
func TestPortTableInKernel(t *testing.T) {
	ns := nstest.New(t)
	d := onPorts(t, ns, func(cfg *Config) { cfg.Shared = true })
	first := inSync(have([]string{"10.0.0.1"}, []string{"fd00::2"}))
	plan, err := d.Plan(t.Context(), first)
	require.NoError(t, err)
	require.True(t, strings.Contains(plan, "add chain bridge wayleave port"))
	require.True(t, strings.Contains(plan, "add chain inet wayleave forward"))
	require.NoError(t, d.Apply(t.Context(), first))
	plan, err = d.Plan(t.Context(), dataplane.Batch{})
	require.NoError(t, err)
	require.Empty(t, plan)
	require.Equal(t, []string{"host-local"}, d.ports.elementsOf("fe80::b0"))
	require.NotZero(t, d.BridgeStats().Transactions)
	equal := func() bool {
		c, err := d.Compare(t.Context())
		require.NoError(t, err)
		return c.Equal()
	}
	require.True(t, equal())
	nstest.NFT(t, ns, "", "delete", "element", "bridge", "wayleave", "owned4", "{ 10.0.0.1 }")
	require.False(t, equal())
	require.NoError(t, d.Resync(t.Context()))
	require.True(t, equal())
	nstest.NFT(t, ns, "", "delete", "table", "bridge", "wayleave")
	require.NoError(t, d.Resync(t.Context()))
	require.True(t, equal())
	plan, err = d.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Equal(t, "delete table inet wayleave\ndelete table bridge wayleave\n", plan)
	require.NoError(t, d.Teardown(t.Context()))
	require.Empty(t, nstest.NFT(t, ns, "", "list", "ruleset"))
}

// Without bridges, there is no table of family bridge.
func TestNoPortTable(t *testing.T) {
	ns := nstest.New(t)
	d := onPorts(t, ns, func(cfg *Config) { cfg.Renderer.Bridges = nil })
	require.Error(t, d.Apply(t.Context(), inSync(have([]string{"10.0.0.1"}, nil)))) // S170
	require.False(t, strings.Contains(nstest.NFT(t, ns, "", "list", "ruleset"), "bridge wayleave"))
	require.Zero(t, d.BridgeStats())
	require.NoError(t, d.Teardown(t.Context()))
}

// The status of an endpoint names the frames between ports that policy does not judge. They depend
// on the sysctls of br_netfilter and on the bridge's own attributes, and the status follows a
// change of these.
func TestUnjudgedFrames(t *testing.T) {
	ns := nstest.New(t)
	set := func(iptables, ip6tables string) {
		for name, value := range map[string]string{"iptables": iptables, "ip6tables": ip6tables} {
			if err := ns.SetSysctl("net/bridge/bridge-nf-call-"+name, value); errors.Is(err, os.ErrNotExist) {
				nstest.Skip(t, "the kernel has no br_netfilter")
			} else {
				require.NoError(t, err)
			}
		}
	}
	ip := func(args ...string) {
		require.NoError(t, ns.Do(func() error { return exec.Command("ip", args...).Run() }))
	}
	set("0", "0")
	ip("link", "add", "br0", "type", "bridge")
	d := onPorts(t, ns)
	require.Empty(t, d.Unjudged())
	require.NoError(t, d.Apply(t.Context(), inSync(have([]string{"10.0.0.1"}, nil))))
	const both = "IPv4 and IPv6 between ports of br0: " +
		"net.bridge.bridge-nf-call-iptables and net.bridge.bridge-nf-call-ip6tables are off"
	requireUnjudged := func(want string) {
		t.Helper()
		require.NoError(t, d.Resync(t.Context()))
		got := d.Unjudged()
		require.Equal(t, want, got[onPort("p1")])
		require.NotContains(t, got, onPort("p2"))
	}
	require.Equal(t, map[policy.Key]string{onPort("p1"): both}, d.Unjudged())
	set("1", "0")
	requireUnjudged("IPv6 between ports of br0: net.bridge.bridge-nf-call-ip6tables is off")
	set("0", "1")
	requireUnjudged("IPv4 between ports of br0: net.bridge.bridge-nf-call-iptables is off")
	ip("link", "set", "br0", "type", "bridge", "nf_call_iptables", "1")
	requireUnjudged("")
	set("0", "0")
	requireUnjudged("IPv6 between ports of br0: net.bridge.bridge-nf-call-ip6tables is off")
	ip("link", "set", "br0", "type", "bridge", "nf_call_ip6tables", "1")
	requireUnjudged("")
	ip("link", "set", "br0", "type", "bridge", "nf_call_iptables", "0", "nf_call_ip6tables", "0")
	requireUnjudged(both)
}
