// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/worlds"
)

// op is one step of a random world: an update, InSync, or a flush.
type op struct {
	update        policy.Update
	inSync, flush bool
}

// String returns the step in one line.
func (o op) String() string {
	switch {
	case o.inSync:
		return "in sync"
	case o.flush:
		return "flush"
	case o.update.Resource == nil:
		return "delete " + o.update.Key.String()
	}
	if data, err := policy.Encode(o.update.Resource); err == nil {
		return string(data)
	}
	return fmt.Sprintf("%+v", o.update.Resource)
}

// opGen makes random steps: updates of package worlds; host endpoints, services, and rules and
// policies for them; and earlier updates again.
type opGen struct {
	*worlds.Generator
	rng  *rand.Rand
	past []policy.Update
}

func newOpGen(seed uint64) *opGen {
	return &opGen{Generator: worlds.New(worlds.Config{Seed: seed}), rng: rand.New(rand.NewPCG(seed, 2))}
}

// ops returns a whole run. At its end, the graph is in sync and flushed.
func (g *opGen) ops() []op {
	var out []op
	n := 80 + g.rng.IntN(80)
	inSyncAt := g.rng.IntN(30)
	for i := range n {
		out = append(out, op{update: g.update()})
		if i == inSyncAt {
			out = append(out, op{inSync: true})
		}
		if g.rng.IntN(4) == 0 {
			out = append(out, op{flush: true})
		}
	}
	return append(out, op{flush: true})
}

func (g *opGen) update() policy.Update {
	if len(g.past) > 0 && g.rng.IntN(12) == 0 { // repeated, or an older state
		return g.past[g.rng.IntN(len(g.past))]
	}
	u := g.freshUpdate()
	if len(g.past) > 0 && g.rng.IntN(6) == 0 {
		u = g.edited(g.past[g.rng.IntN(len(g.past))])
	}
	g.past = append(g.past, u)
	return u
}

// edited returns an update with a small change: of a network set, one prefix more, possibly a
// duplicate, or one less.
func (g *opGen) edited(u policy.Update) policy.Update {
	old, ok := u.Resource.(*policy.NetworkSet)
	if !ok || len(old.Nets) == 0 {
		return u
	}
	n := policy.Clone(old).(*policy.NetworkSet)
	if i := g.rng.IntN(len(n.Nets)); g.rng.IntN(3) == 0 {
		n.Nets = slices.Delete(n.Nets, i, i+1)
	} else {
		n.Nets = slices.Insert(n.Nets, i, pickOne(g, n.Nets...))
	}
	return policy.Update{Key: u.Key, Resource: n}
}

func (g *opGen) freshUpdate() policy.Update {
	var resource policy.Resource
	switch g.rng.IntN(10) {
	case 0, 1:
		resource = g.hostEndpoint()
	case 2:
		resource = g.service()
	default:
		u := g.Generator.Update()
		if p, ok := u.Resource.(*policy.Policy); ok {
			g.enrich(p)
		}
		return u
	}
	u := policy.Update{Key: resource.Key(), Resource: resource}
	if g.rng.IntN(5) == 0 {
		u.Resource = nil
	}
	return u
}

func (g *opGen) hostEndpoint() *policy.HostEndpoint {
	h := &policy.HostEndpoint{
		Name: fmt.Sprintf("h%d", g.rng.IntN(4)), Node: pickOne(g, node, node, "n2"),
		InterfaceName: pickOne(g, "", "eth0", "eth1", policy.AllInterfaces), Labels: map[string]string{},
	}
	if g.rng.IntN(2) == 0 {
		h.Labels["app"] = pickOne(g, "web", "db")
	}
	if g.rng.IntN(2) == 0 {
		h.Labels["role"] = pickOne(g, "fe", "be")
	}
	if g.rng.IntN(3) > 0 {
		h.ExpectedIPs = []netip.Addr{g.Packet().Src}
	}
	if g.rng.IntN(3) == 0 {
		h.Ports = []policy.EndpointPort{{Name: "http", Protocol: policy.ProtocolTCP, Port: pickOne[uint16](g, 80, 81)}}
	}
	if g.rng.IntN(3) == 0 {
		h.Profiles = []string{pickOne(g, "p1", "p2")}
	}
	if g.rng.IntN(20) == 0 {
		h.Node = "" // invalid
	}
	return h
}

func (g *opGen) service() *policy.ServiceBackends {
	part := &policy.ServiceBackends{
		Namespace: pickOne(g, "a", "b"), Name: fmt.Sprintf("part-%d", g.rng.IntN(3)), Service: pickOne(g, "s1", "s2"),
	}
	for range g.rng.IntN(3) {
		if addr := g.Packet().Dst; len(part.Addresses) == 0 || part.Addresses[0] != addr {
			part.Addresses = append(part.Addresses, addr)
		}
	}
	for _, port := range []uint16{80, 53} {
		if g.rng.IntN(2) == 0 {
			part.Ports = append(part.Ports, policy.ServicePort{
				Protocol: pickOne(g, policy.ProtocolTCP, policy.ProtocolUDP), Port: port,
			})
		}
	}
	if g.rng.IntN(20) == 0 {
		part.Service = "" // invalid
	}
	return part
}

// enrich adds services to a policy, and makes some policies for host endpoints only.
func (g *opGen) enrich(p *policy.Policy) {
	service := func() *policy.ServiceMatch {
		s := &policy.ServiceMatch{Name: pickOne(g, "s1", "s2"), Namespace: pickOne(g, "a", "b")}
		if p.Namespace != "" && g.rng.IntN(2) == 0 {
			s.Namespace = ""
		}
		return s
	}
	for i := range p.Ingress {
		if g.rng.IntN(8) == 0 {
			p.Ingress[i].Source = policy.EntityRule{Services: service()}
		}
	}
	for i := range p.Egress {
		if g.rng.IntN(6) == 0 {
			p.Egress[i].Destination = policy.EntityRule{Services: service()}
		}
	}
	if p.Namespace != "" {
		return
	}
	switch g.rng.IntN(8) {
	case 0, 1:
		p.ApplyOnForward = true
	case 2:
		p.ApplyOnForward, p.DoNotTrack = true, true
	case 3:
		p.ApplyOnForward, p.PreDNAT = true, true
		p.Egress, p.Types = nil, []policy.Type{policy.Ingress}
	}
}

func pickOne[T any](g *opGen, list ...T) T { return list[g.rng.IntN(len(list))] }

// minimised returns a minimal part of the steps that still fails, in order. It removes parts of
// decreasing size (delta debugging).
func minimised(ops []op, fails func([]op) bool) []op {
	for size := (len(ops) + 1) / 2; size >= 1; {
		shorter := false
		for from := 0; from < len(ops); from += size {
			rest := append(append([]op{}, ops[:from]...), ops[min(from+size, len(ops)):]...)
			if fails(rest) {
				ops, shorter = rest, true
				from -= size
			}
		}
		if !shorter || size > len(ops) {
			if size == 1 {
				break
			}
			size = max(1, size/2)
		}
	}
	return ops
}
