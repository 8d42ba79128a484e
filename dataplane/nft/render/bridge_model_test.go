// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// bridgeModel has random endpoints and masters, and decides which packets pass.
type bridgeModel struct {
	*rand.Rand
	state   dptest.State
	masters map[string]render.Master
}

func modelInterfaces() []string {
	return []string{"way1", "way2", "way3", "x4", "br0", "br1", "br7", "red"}
}

// mutate changes an endpoint or a master.
func (m *bridgeModel) mutate() {
	pick := func(of ...string) string { return of[m.IntN(len(of))] }
	if m.IntN(2) == 0 {
		name, next := pick("way1", "way2", "way3", "x4", "br0", "br1"), render.Master{}
		switch m.IntN(8) {
		case 0, 1, 2, 3:
			next = render.Master{Name: pick("br0", "br0", "br1"), Kind: "bridge"}
		case 4:
			next = []render.Master{
				{Name: "br7", Kind: "bridge"},
				{Name: "red", Kind: "vrf"},
				{Name: "br0", Kind: "team"},
				{Name: "br1"},
				render.UnknownMaster(),
			}[m.IntN(5)]
		}
		if strings.HasPrefix(name, "br") && (m.IntN(3) > 0 || m.masters[name] != (render.Master{})) {
			next = render.Master{}
		} else if strings.HasPrefix(name, "br") && next != render.UnknownMaster() {
			next = render.Master{Name: "red", Kind: "vrf"}
		}
		if m.masters[name] = next; next == (render.Master{}) {
			delete(m.masters, name)
		}
		return
	}
	key := nfttest.EndpointKey(pick("one", "two", "three", "four"))
	if m.IntN(6) == 0 {
		delete(m.state.Endpoints, key)
		return
	}
	e := &dataplane.Endpoint{Interface: pick("way1", "way2", "way2", "way3", "way3"), Down: m.IntN(8) == 0}
	if m.IntN(10) == 0 {
		e.Interface = pick("x4", "br0", "red", "br7")
	}
	for range m.IntN(3) {
		last := pick("1", "2", "3")
		e.Addresses = append(e.Addresses, nfttest.Addresses("10.0.0."+last, "fd00::"+last)[m.IntN(2)])
	}
	if m.IntN(8) > 0 {
		e.Profiles = []string{"all"}
	}
	m.state.Endpoints[key] = e
}

// bridge returns the configured bridge of a port, or "".
func (m *bridgeModel) bridge(name string) string {
	of := m.masters[name]
	_, isPort := m.masters[of.Name]
	if slices.Contains(nfttest.Bridges(), of.Name) && of.Kind == "bridge" && !isPort {
		return of.Name
	}
	return ""
}

// up reports whether policy of an endpoint decides about its packets.
func (m *bridgeModel) up(key policy.Key) bool {
	e := m.state.Endpoints[key]
	_, isPort := m.masters[e.Interface]
	bridge := m.bridge(e.Interface)
	if e.Down || isPort && bridge == "" || slices.Contains(nfttest.Bridges(), e.Interface) {
		return false
	}
	for other, o := range m.state.Endpoints {
		shares := slices.ContainsFunc(o.Addresses, func(a netip.Addr) bool { return slices.Contains(e.Addresses, a) })
		if other != key && (o.Interface == e.Interface || bridge != "" && bridge == m.bridge(o.Interface) && shares) {
			return false
		}
	}
	return true
}

// passes reports whether a packet between an address at an interface and the outside passes. sends
// is set if the address is the source. A routed endpoint receives packets to any address.
func (m *bridgeModel) passes(name string, a netip.Addr, known, sends bool) bool {
	claimed := false
	for key, e := range m.state.Endpoints {
		claimed = claimed || e.Interface == name
		seen, own := e.Interface, slices.Contains(e.Addresses, a)
		if bridge := m.bridge(e.Interface); bridge != "" {
			seen = bridge
		} else {
			own = own || !sends
		}
		if seen == name && own && m.up(key) {
			return !m.blocked(name, a) && (known || len(e.Profiles) > 0)
		}
	}
	if claimed || strings.HasPrefix(name, "way") || slices.Contains(nfttest.Bridges(), name) {
		return false
	}
	return !m.blocked("", a)
}

// blocked reports whether a packet drops because an endpoint at fault has the address (S170).
func (m *bridgeModel) blocked(name string, a netip.Addr) bool {
	hit, upper := false, name == ""
	for _, e := range m.state.Endpoints {
		if _, isPort := m.masters[e.Interface]; isPort && m.bridge(e.Interface) == "" {
			hit = hit || slices.Contains(e.Addresses, a)
			upper = upper || m.masters[e.Interface].Name == name
		}
	}
	return hit && upper
}

// S100, S170, S171: endpoints and masters change at random. After each step the table, the errors
// and TakeBridges are those of a new Renderer, and the same packets pass as in the model.
func TestBridgeModel(t *testing.T) { nfttest.EachForm(t, testBridgeModel) }

func testBridgeModel(t *testing.T, classes render.ClassesConfig) {
	cfg := render.Config{Classes: classes, Bridges: nfttest.Bridges()}
	passed, dropped := 0, 0
	for _, seed := range worldFlags.Seeds(12, 3) {
		m := &bridgeModel{rand.New(rand.NewPCG(seed, 171)), nfttest.InSync(), map[string]render.Master{}}
		m.state.Profiles["all"] = &dataplane.Profile{
			Ingress: []dataplane.Rule{nfttest.AllowAll("in")}, Egress: []dataplane.Rule{nfttest.AllowAll("out")},
		}
		r, err := render.New(cfg)
		require.NoError(t, err)
		r.Update(nfttest.Transition(m.state))
		kernel, bridges := ruleset.NewState(ruleset.FamilyINet, "wayleave"), map[string]string{}
		for step := range 60 {
			before, masters := m.state.Clone(), maps.Clone(m.masters)
			for range 1 + m.IntN(4) {
				m.mutate()
			}
			changes := []func(){
				func() { r.Update(dptest.Transition(before, m.state)) }, func() { m.setMasters(r, masters) },
			}
			if m.IntN(2) == 0 {
				slices.Reverse(changes)
			}
			for _, change := range changes {
				change()
				if m.IntN(4) == 0 { // an intermediate state
					play(t, kernel, r)
				}
			}
			play(t, kernel, r)
			if m.IntN(2) == 0 {
				for name, bridge := range r.TakeBridges() {
					if bridges[name] = bridge; bridge == "" {
						delete(bridges, name)
					}
				}
				want := map[string]string{}
				for name := range m.masters {
					if bridge := m.bridge(name); bridge != "" {
						want[name] = bridge
					}
				}
				require.Equal(t, want, bridges, "seed %d, step %d", seed, step)
				require.Empty(t, r.TakeBridges(), "no change is reported twice")
			}
			table := m.requireFresh(t, cfg, r)
			require.Equal(t, table.String(), kernel.Table().String(), "seed %d, step %d", seed, step)
			p, d := m.requirePackets(t, table)
			passed, dropped = passed+p, dropped+d
		}
	}
	t.Logf("%d packets passed, %d dropped", passed, dropped)
	require.Greater(t, min(passed, dropped), 1000)
}

// setMasters passes the masters to a renderer, one by one or all at once.
func (m *bridgeModel) setMasters(r *render.Renderer, before map[string]render.Master) {
	if m.IntN(3) == 0 {
		r.SetInterfaces(m.interfaces())
		return
	}
	names := slices.Sorted(maps.Keys(before))
	names = append(names, slices.Sorted(maps.Keys(m.masters))...)
	m.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		r.SetMaster(name, m.masters[name])
	}
}

func (m *bridgeModel) interfaces() map[string]render.Interface {
	out := map[string]render.Interface{}
	for name, of := range m.masters {
		out[name] = render.Interface{Master: of}
	}
	return out
}

// play applies the changes of a renderer to the table of the kernel.
func play(t *testing.T, kernel *ruleset.State, r *render.Renderer) {
	t.Helper()
	change, err := kernel.Prepare(r.Flush())
	require.NoError(t, err)
	kernel.Commit(change)
}

// requireFresh requires the table and the errors of a new Renderer. It returns the table.
func (m *bridgeModel) requireFresh(t *testing.T, cfg render.Config, r *render.Renderer) *ruleset.Table {
	t.Helper()
	fresh, err := render.New(cfg)
	require.NoError(t, err)
	fresh.SetInterfaces(m.interfaces())
	fresh.Update(nfttest.Transition(m.state))
	want, errs := fresh.Table()
	table, now := r.Table()
	require.Equal(t, want.String(), table.String(), "%s\n%v", m.state, m.masters)
	require.Equal(t, messages(errs), messages(now))
	clone, _ := r.Clone().Table()
	require.Equal(t, want.String(), clone.String())
	return table
}

// requirePackets requires that the same packets pass as in the model.
func (m *bridgeModel) requirePackets(t *testing.T, table *ruleset.Table) (passed, dropped int) {
	t.Helper()
	sim := simulated(t, table)
	for _, name := range modelInterfaces() {
		for _, a := range nfttest.Addresses("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.9", "fd00::1", "fd00::2") {
			far := "8.8.8.8"
			if a.Is6() {
				far = "2001:db8::1"
			}
			for _, state := range []uint32{ruleset.CtNew, ruleset.CtEstablished} {
				from := tcpPacket(name, a.String(), "eth0", far, state)
				to := tcpPacket("eth0", far, name, a.String(), state)
				for i, p := range []simPacket{from, to} {
					want := m.passes(name, a, state == ruleset.CtEstablished, i == 0)
					got := p.Run(t, sim, ruleset.Forward).Allowed
					require.Equal(t, want, got, "%+v\n%s\n%v\n%s", p, m.state, m.masters, table)
					if want {
						passed++
					} else {
						dropped++
					}
				}
			}
		}
	}
	return passed, dropped
}

// S171: the master of a configured bridge affects its ports. So the bridges are looked up at the
// start and by each Resync, also without endpoints.
func TestBridgesAreLookedUp(t *testing.T) {
	r, err := render.New(render.Config{Bridges: nfttest.Bridges()})
	require.NoError(t, err)
	require.ElementsMatch(t, nfttest.Bridges(), slices.Collect(r.ChangedInterfaces()))
	r.Update(nfttest.Transition(nfttest.InSync()))
	r.Flush()
	require.Empty(t, slices.Collect(r.ChangedInterfaces()))
	require.ElementsMatch(t, nfttest.Bridges(), slices.Collect(r.Interfaces()))
	s, _ := bridgedState()
	s.Endpoints[nfttest.EndpointKey("router")] = &dataplane.Endpoint{Interface: "br0"}
	r.Update(nfttest.Transition(s))
	require.ElementsMatch(t, []string{"br0", "br1", "way1", "way2", "way3", "way4", "way5"},
		slices.Collect(r.Interfaces()), "each once")
}
