// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// natSettled are the status bits that say that a connection's translation is settled: chains of type nat do not see it
// any more (IPS_SRC_NAT_DONE, IPS_DST_NAT_DONE).
const natSettled = 1<<7 | 1<<8

// sideFinder finds where an address is that no endpoint has.
type sideFinder interface {
	// find returns no side if it cannot be told.
	find(netip.Addr) []side
}

// world is a ruleset, with what tells where packets come from and go to under it. It is for one goroutine.
type world struct {
	// state is nil if it is not known.
	state  *ruleset.State
	finder sideFinder
	// owners are the interfaces behind which an address is, sources the prefixes that what is behind an interface may send from besides.
	// The lists are never changed in place.
	owners  map[netip.Addr][]string
	sources map[string][]netip.Prefix

	// What follows is made when a flow is judged.
	simulator *ruleset.Simulator
	// hosts says that there is policy of host endpoints, untrackedOut that some of it is for what the host sends untracked.
	hosts, untrackedOut bool
	// facts are what routing says of source and destination, by which of them is local (1 and 2).
	facts [4]map[ruleset.Field]ruleset.Value
}

func newWorld(table string, finder sideFinder) *world {
	return &world{
		state: ruleset.NewState(ruleset.FamilyINet, table), finder: finder,
		owners: map[netip.Addr][]string{}, sources: map[string][]netip.Prefix{},
	}
}

// clone returns a world that stays as this one is now.
func (w *world) clone() *world {
	c := &world{finder: w.finder, owners: maps.Clone(w.owners), sources: maps.Clone(w.sources)}
	if w.state != nil {
		c.state = w.state.Clone()
	}
	return c
}

// apply makes a commit's change. Errors: those of ruleset's State.Prepare.
func (w *world) apply(c *commit) error {
	w.rest()
	for a, names := range c.owners.addresses {
		if w.owners[a] = names; len(names) == 0 {
			delete(w.owners, a)
		}
	}
	for name, prefixes := range c.owners.sources {
		if w.sources[name] = prefixes; len(prefixes) == 0 {
			delete(w.sources, name)
		}
	}
	if c.table != nil {
		state, err := ruleset.StateOf(c.table)
		if err != nil {
			return err
		}
		w.state = state
	}
	if w.state == nil {
		return nil
	}
	for _, d := range c.deltas {
		change, err := w.state.Prepare(d)
		if err != nil {
			return err
		}
		w.state.Commit(change)
	}
	return nil
}

// rest lets go of what was made for judging.
func (w *world) rest() { w.simulator = nil }

// ready makes what judging needs. It reports whether there is a ruleset to judge by.
func (w *world) ready() bool {
	if w.simulator != nil || w.state == nil {
		return w.simulator != nil
	}
	simulator, err := ruleset.NewSimulator(ruleset.SimulatorConfig{State: w.state})
	if err != nil {
		return false
	}
	w.simulator, w.hosts = simulator, false
	for _, l := range hostLists() {
		w.hosts = w.hosts || w.state.Chain(l.name()) != nil
	}
	w.untrackedOut = w.state.Chain(hostRawOut.name()) != nil
	for i := range w.facts {
		kind := func(local bool) ruleset.Value {
			if local {
				return ruleset.Uint32(ruleset.FibTypeLocal)
			}
			return ruleset.Uint32(ruleset.FibTypeUnicast)
		}
		w.facts[i] = map[ruleset.Field]ruleset.Value{
			ruleset.FibSaddrType: kind(i&1 != 0), ruleset.FibDaddrType: kind(i&2 != 0),
			ruleset.FibSource: ruleset.Byte(1), // it had a way back when it began
		}
	}
	return true
}

// judge says what the ruleset does with the first packet of a flow, in its original direction: out of the source's endpoint and
// into the destination's. Replies are not judged, for no ruleset of ours asks policy about them. Where the source or the
// destination may be behind several interfaces, all must come to the same.
func (w *world) judge(f *conntrack.Flow) conntrack.Verdict {
	if !w.ready() {
		return conntrack.Unknown
	}
	source, destination := f.Source().Addr(), f.Destination().Addr()
	from, to := w.sourceSides(source), w.owned(destination)
	if len(from)+len(to) == 0 && !w.hosts {
		return conntrack.Unknown // nothing of ours
	}
	if len(w.owners[source]) == 0 {
		found := w.finder.find(source)
		if len(found) == 0 {
			return conntrack.Unknown
		}
		from = append(from, found...)
	}
	if len(to) == 0 {
		to = w.finder.find(destination)
	}
	verdict := conntrack.Unknown
	for _, a := range from {
		for _, b := range to {
			v := w.path(f, a, b)
			if v == conntrack.Unknown || verdict != conntrack.Unknown && v != verdict {
				return conntrack.Unknown
			}
			verdict = v
		}
	}
	return verdict
}

// owned returns the sides of an address that endpoints have.
func (w *world) owned(a netip.Addr) (sides []side) {
	for _, name := range w.owners[a] {
		sides = append(sides, side{iface: name})
	}
	return sides
}

// sourceSides returns the sides of an address that endpoints have, or otherwise may send from.
func (w *world) sourceSides(a netip.Addr) []side {
	sides := w.owned(a)
	if len(sides) > 0 {
		return sides
	}
	for name, prefixes := range w.sources {
		if slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
			sides = append(sides, side{iface: name})
		}
	}
	return sides
}

// path judges the first packet on its way from one side to another, hook by hook.
func (w *world) path(f *conntrack.Flow, from, to side) conntrack.Verdict {
	if from.local && to.local {
		return conntrack.Unknown
	}
	trip := trip{world: w, packet: firstPacket(f), conn: firstConn(f), verdict: conntrack.Allowed}
	if from.local {
		trip.local(true, false)
		return trip.fromHost(f, to)
	}
	trip.packet.IIFName = from.iface
	trip.local(false, w.isLocal(f.Requested().Addr(), f.Destination().Addr(), to))
	trip.to(f.Requested()).through(ruleset.Prerouting)
	trip.local(false, to.local)
	if to.local {
		trip.to(f.Destination()).through(ruleset.Input)
		return trip.verdict
	}
	trip.packet.OIFName = to.iface
	trip.to(f.Destination()).through(ruleset.Forward)
	trip.packet.IIFName = ""
	trip.through(ruleset.Postrouting)
	return trip.verdict
}

// isLocal reports whether what a packet was sent to is the node's own, given where it went to. Only policy of host endpoints asks.
func (w *world) isLocal(requested, destination netip.Addr, to side) bool {
	if requested == destination {
		return to.local
	}
	if !w.hosts || len(w.owners[requested]) > 0 {
		return false
	}
	sides := w.finder.find(requested)
	return len(sides) == 1 && sides[0].local
}

// trip is a packet on its way through the hooks.
type trip struct {
	world   *world
	packet  ruleset.Packet
	conn    ruleset.Conn
	verdict conntrack.Verdict
}

// fromHost judges what a process of the node's sends. What is translated is judged before routing by the interface that it would
// have left by.
func (t *trip) fromHost(f *conntrack.Flow, to side) conntrack.Verdict {
	out := to
	if f.Requested() != f.Destination() {
		sides := t.world.owned(f.Requested().Addr())
		if len(sides) == 0 {
			sides = t.world.finder.find(f.Requested().Addr())
		}
		if len(sides) != 1 || t.world.untrackedOut { // untracked policy would see the packet as it was before
			return conntrack.Unknown
		}
		out = sides[0]
	}
	t.packet.OIFName = out.iface
	t.to(f.Destination()).through(ruleset.Output)
	t.packet.OIFName = to.iface
	t.through(ruleset.Postrouting)
	return t.verdict
}

// local sets what routing says of the addresses.
func (t *trip) local(source, destination bool) {
	i := 0
	if source {
		i |= 1
	}
	if destination {
		i |= 2
	}
	t.packet.Facts = t.world.facts[i]
}

// to sets the destination.
func (t *trip) to(a netip.AddrPort) *trip {
	t.packet.Dst, t.packet.DstPort = a.Addr(), a.Port()
	return t
}

// through takes the packet through a hook, if it came so far. A verdict that hangs on a limit is none.
func (t *trip) through(point ruleset.HookPoint) {
	if t.verdict != conntrack.Allowed {
		return
	}
	r, err := t.world.simulator.Run(point, t.packet, t.conn)
	if err == nil && r.Limited {
		over := t.packet
		over.OverLimit = true
		again, failed := t.world.simulator.Run(point, over, t.conn)
		if failed != nil || again.Verdict != r.Verdict {
			t.verdict = conntrack.Unknown
			return
		}
	}
	switch {
	case err != nil:
		t.verdict = conntrack.Unknown
	case r.Verdict != ruleset.Accept:
		t.verdict = conntrack.Denied
	case r.Conn.State == ruleset.CtUntracked:
		t.conn.State = ruleset.CtUntracked
	}
}

// firstPacket returns the first packet of a flow, but for its destination.
func firstPacket(f *conntrack.Flow) ruleset.Packet {
	p := ruleset.Packet{
		Src: f.Source().Addr(), SrcPort: f.Source().Port(), Protocol: f.Protocol(),
		ICMPType: f.Original.ICMPType, ICMPCode: f.Original.ICMPCode,
	}
	if p.Protocol == uint8(policy.ProtocolTCP) {
		p.TCPFlags = ruleset.TCPSyn
	}
	return p
}

// firstConn returns what connection tracking knew at the first packet, behind destination NAT.
func firstConn(f *conntrack.Flow) ruleset.Conn {
	tuple := func(t conntrack.Tuple) ruleset.Tuple {
		out := ruleset.Tuple{
			Src: t.Source.Addr(), Dst: t.Destination.Addr(),
			SrcPort: t.Source.Port(), DstPort: t.Destination.Port(),
		}
		if t.Protocol == uint8(policy.ProtocolICMP) || t.Protocol == protocolICMPv6 {
			out.SrcPort, out.DstPort = t.ICMPID, uint16(t.ICMPType)<<8|uint16(t.ICMPCode)
		}
		return out
	}
	return ruleset.Conn{
		State: ruleset.CtNew, Status: natSettled | uint32(f.Status&conntrack.StatusDestinationNAT), Mark: f.Mark, Zone: f.Zone,
		Original: tuple(f.Original), Answer: tuple(f.Reply),
	}
}
