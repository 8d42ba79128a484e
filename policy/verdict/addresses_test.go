// SPDX-License-Identifier: Apache-2.0

package verdict_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

// smallWorld returns a random world with an endpoint on the node, and its key.
func smallWorld(seed uint64) (verdict.World, *worlds.Generator, *policy.WorkloadEndpoint) {
	g := worlds.New(worlds.Config{Seed: seed, Interfaces: []string{"way1"}, Open: seed%2 == 0})
	w := verdict.World{}
	w.Set(g.World()...)
	for _, r := range w {
		if e, ok := r.(*policy.WorkloadEndpoint); ok && e.Node == worlds.Node && e.Validate() == nil {
			return w, g, e
		}
	}
	return w, g, nil
}

// An evaluator with the policies of one endpoint has the same verdicts for it.
func TestOnlySomeEndpoints(t *testing.T) {
	dropped := 0
	for seed := range uint64(60) {
		w, g, e := smallWorld(seed)
		if e == nil {
			continue
		}
		all := verdict.New(w)
		some := all.Only(e.Key())
		require.Equal(t, all.Policies(e.Key()), some.Policies(e.Key()))
		for key := range w {
			if key.Kind == policy.KindPolicy && !slices.Contains(all.Policies(e.Key()), key) {
				dropped++
			}
		}
		for range 50 {
			p := g.Packet()
			f := verdict.Flow{
				SrcEndpoint: e.Key(), Src: p.Src, Dst: p.Dst, Protocol: p.Protocol,
				SrcPort: p.SrcPort, DstPort: p.DstPort,
			}
			require.Equal(t, all.Explain(f).Egress, some.Explain(f).Egress, "seed %d: %s", seed, f)
			f.SrcEndpoint, f.DstEndpoint = policy.Key{}, e.Key()
			require.Equal(t, all.Explain(f).Ingress, some.Explain(f).Ingress, "seed %d: %s", seed, f)
		}
	}
	require.Positive(t, dropped)
}

// Addresses of one class have the same verdicts. There are no more classes than prefixes allow.
func TestAddressesOfOneClass(t *testing.T) {
	compared := 0
	for seed := range uint64(60) {
		w, g, e := smallWorld(seed)
		if e == nil {
			continue
		}
		all := verdict.New(w)
		classes, err := all.AddressClasses(e.Key())
		require.NoError(t, err)
		class := func(a netip.Addr) string { return string(classes.AppendClass(nil, a)) }
		byClass := map[string][]netip.Addr{}
		for p := range classes.Prefixes() {
			a := p.Addr()
			for _, a := range []netip.Addr{a, a.Prev(), a.Next()} {
				if !a.IsValid() {
					continue
				}
				key := class(a)
				if a.Is6() {
					key += " IPv6"
				}
				byClass[key] = append(byClass[key], a)
			}
		}
		for range 20 {
			p := g.Packet()
			for _, list := range byClass {
				f := verdict.Flow{
					DstEndpoint: e.Key(), Dst: p.Dst, Protocol: p.Protocol, SrcPort: p.SrcPort, DstPort: p.DstPort,
				}
				if list[0].Is4() != p.Dst.Is4() {
					continue
				}
				f.Src = list[0]
				want := all.Evaluate(f).Ingress
				for _, f.Src = range list[1:] {
					require.Equal(t, want, all.Evaluate(f).Ingress, "seed %d: %s and %s", seed, list[0], f)
					compared++
				}
			}
		}
	}
	require.Greater(t, compared, 1000)
}

func TestAddressClassesOfServices(t *testing.T) {
	w := worldOf(wep("n/web", "10.0.0.1", ""), backends(t, "web-1", "n/web", "10.0.1.1 10.0.1.3", "tcp/80 udp/53"),
		backends(t, "web-2", "n/web", "10.0.1.2", "tcp/81"),
		&policy.Policy{Name: "p", Egress: []policy.Rule{{Action: policy.Allow, Destination: of("n/web")}}})
	e := verdict.New(w)
	classes, err := e.AddressClasses(wep("n/web", "10.0.0.1", "").Key())
	require.NoError(t, err)
	class := func(a string) string { return string(classes.AppendClass(nil, netip.MustParseAddr(a))) }
	require.Equal(t, class("10.0.1.1"), class("10.0.1.3"))
	require.NotEqual(t, class("10.0.1.1"), class("10.0.1.2"))
	require.NotEqual(t, class("10.0.1.1"), class("10.0.1.4"))
}
