// SPDX-License-Identifier: Apache-2.0

package revoke

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
)

// HostChains has the names of the chains that lead to policy of host endpoints.
type HostChains struct {
	// All has the names of all chains that lead to policy of host endpoints. A table may lack any
	// of these chains.
	All []string
	// UntrackedOut is the chain for untracked packets that the host sends. It is also in All.
	UntrackedOut string
}

// EvaluatorConfig configures an Evaluator.
type EvaluatorConfig struct {
	// Table is the name of the table, of family inet.
	Table string
	// Host has the names of the chains that lead to policy of host endpoints.
	Host HostChains
	// Finder is for addresses that belong to no endpoint. It finds the place of such an address:
	// behind an interface, or on the node itself.
	Finder Finder
}

// Change is a change of the table. It took one or more transactions: the kernel accepted the last
// one, and may have refused any of those before it.
type Change struct {
	// Reset is set if the state before the change is unknown. Then it is also unknown which
	// connections were allowed before the change, so the change ends no connection.
	Reset bool
	// Table, if it is not nil, is the whole table, and replaces the earlier table. Deltas are
	// changes that come after Table, in order. If Table is nil, they are changes of the earlier
	// table.
	Table     *ruleset.Table
	Deltas    []*ruleset.Delta
	Addresses AddressChanges
}

func (c *Change) empty() bool {
	a := c.Addresses
	return !c.Reset && c.Table == nil && len(c.Deltas) == 0 && len(a.Interfaces)+len(a.Sources)+len(a.Bridges) == 0
}

// AddressChanges lists the interfaces of addresses, and the addresses from which an interface may
// send. It has only the addresses and interfaces for which this has changed. An empty list means
// that the address is behind no interface any more, or that the interface has no AllowedSources any
// more. Neither the caller nor the receiver may change the lists afterwards.
type AddressChanges struct {
	// Interfaces maps each address to the interfaces that lead to it.
	Interfaces map[netip.Addr][]string
	// Sources maps each interface to the AllowedSources of the workloads behind it.
	Sources map[string][]netip.Prefix
	// Bridges has the new bridge of each interface whose bridge has changed, or "" if the interface
	// is on no bridge any more. If an interface is a port of a bridge, rules see the bridge as the
	// interface of its packets.
	Bridges map[string]string
}

// Evaluator returns the verdict on a connection for one state of the table. It simulates the
// connection's first packet. Only one goroutine at a time may use it.
type Evaluator struct {
	cfg EvaluatorConfig
	// state is nil if it is unknown.
	state *ruleset.State
	// interfaces maps each address to the interfaces that lead to it. sources maps each interface
	// to the AllowedSources of the workloads behind it. The lists never change; new ones replace
	// them.
	interfaces map[netip.Addr][]string
	sources    map[string][]netip.Prefix
	// bridges has the bridge of each interface that is a port of a configured bridge.
	bridges map[string]string

	// The following fields are set by the first call of Judge after a change.
	simulator *simulate.Simulator
	// hosts is set if there is policy of host endpoints. untrackedOut is set if some of it applies
	// to untracked packets that the host sends.
	hosts, untrackedOut bool
	// routeFacts has the results of route lookups. The bits of the index are: bit 0, the source is
	// local; bit 1, the destination is local.
	routeFacts [4]map[ruleset.Field]ruleset.Value
}

// NewEvaluator returns an Evaluator with an empty table.
func NewEvaluator(cfg EvaluatorConfig) *Evaluator {
	return &Evaluator{
		cfg: cfg, state: ruleset.NewState(ruleset.FamilyINet, cfg.Table),
		interfaces: map[netip.Addr][]string{}, sources: map[string][]netip.Prefix{}, bridges: map[string]string{},
	}
}

// Clone returns an independent copy.
func (e *Evaluator) Clone() *Evaluator {
	c := &Evaluator{
		cfg: e.cfg, interfaces: maps.Clone(e.interfaces), sources: maps.Clone(e.sources),
		bridges: maps.Clone(e.bridges),
	}
	if e.state != nil {
		c.state = e.state.Clone()
	}
	return c
}

// State returns the state of the table, or nil if it is unknown. The caller may only read it.
func (e *Evaluator) State() *ruleset.State { return e.state }

// Invalidate makes the state of the table unknown, until a Change with a whole table.
func (e *Evaluator) Invalidate() { e.state = nil }

// Apply applies a change.
//
// Errors: those of ruleset's State.Prepare.
func (e *Evaluator) Apply(c *Change) error {
	e.FreeScratch()
	for a, names := range c.Addresses.Interfaces {
		if e.interfaces[a] = names; len(names) == 0 {
			delete(e.interfaces, a)
		}
	}
	for name, prefixes := range c.Addresses.Sources {
		if e.sources[name] = prefixes; len(prefixes) == 0 {
			delete(e.sources, name)
		}
	}
	for name, bridge := range c.Addresses.Bridges {
		if e.bridges[name] = bridge; bridge == "" {
			delete(e.bridges, name)
		}
	}
	if c.Table != nil {
		state, err := ruleset.StateOf(c.Table)
		if err != nil {
			return err
		}
		e.state = state
	}
	if e.state == nil {
		return nil
	}
	for _, d := range c.Deltas {
		change, err := e.state.Prepare(d)
		if err != nil {
			return err
		}
		e.state.Commit(change)
	}
	return nil
}

// FreeScratch frees memory that only Judge needs. The next call of Judge allocates it again.
func (e *Evaluator) FreeScratch() { e.simulator = nil }

// prepare creates the simulator. It reports whether the state of the table is known.
func (e *Evaluator) prepare() bool {
	if e.simulator != nil || e.state == nil {
		return e.simulator != nil
	}
	simulator, err := simulate.New(simulate.Config{State: e.state})
	if err != nil {
		return false
	}
	e.simulator, e.hosts = simulator, false
	for _, chain := range e.cfg.Host.All {
		e.hosts = e.hosts || e.state.Chain(chain) != nil
	}
	e.untrackedOut = e.state.Chain(e.cfg.Host.UntrackedOut) != nil
	for i := range e.routeFacts {
		kind := func(local bool) ruleset.Value {
			if local {
				return ruleset.Uint32(ruleset.FibTypeLocal)
			}
			return ruleset.Uint32(ruleset.FibTypeUnicast)
		}
		e.routeFacts[i] = map[ruleset.Field]ruleset.Value{
			ruleset.FibSaddrType: kind(i&1 != 0), ruleset.FibDaddrType: kind(i&2 != 0),
			ruleset.FibSource: ruleset.Byte(1), // there was a route back when the connection began
		}
	}
	return true
}

// Judge returns the verdict on the first packet of a connection, as it goes from the source's
// endpoint to the destination's endpoint. Replies need no verdict, because policy does not see
// them. If the source or the destination may be behind several interfaces, Judge computes the
// verdict for each interface. If these verdicts differ, Judge returns Unknown. Judge implements
// conntrack.Judge.
func (e *Evaluator) Judge(f *conntrack.Flow) conntrack.Verdict {
	if !e.prepare() {
		return conntrack.Unknown
	}
	source, destination := f.Source().Addr(), f.Destination().Addr()
	from, to := e.sourceSides(source), e.endpointSides(destination)
	if len(from)+len(to) == 0 && !e.hosts {
		return conntrack.Unknown // no endpoint of this node is involved
	}
	if len(e.interfaces[source]) == 0 {
		found := e.cfg.Finder.Find(source)
		if len(found) == 0 {
			return conntrack.Unknown
		}
		from = append(from, found...)
	}
	if len(to) == 0 {
		to = e.cfg.Finder.Find(destination)
	}
	verdict := conntrack.Unknown
	for _, a := range from {
		for _, b := range to {
			v := e.judgeBetween(f, a, b)
			if v == conntrack.Unknown || verdict != conntrack.Unknown && v != verdict {
				return conntrack.Unknown
			}
			verdict = v
		}
	}
	return verdict
}

// endpointSides returns the sides of the endpoints that have an address.
func (e *Evaluator) endpointSides(a netip.Addr) (sides []Side) {
	for _, name := range e.interfaces[a] {
		sides = append(sides, e.side(name))
	}
	return sides
}

// side returns the side of an endpoint's interface. Rules see the bridge instead of its port.
func (e *Evaluator) side(name string) Side { return Side{Interface: cmp.Or(e.bridges[name], name)} }

// sourceSides returns the sides of the endpoints that have an address. If no endpoint has it, it
// returns the sides of the endpoints that may send from it.
func (e *Evaluator) sourceSides(a netip.Addr) []Side {
	sides := e.endpointSides(a)
	if len(sides) > 0 {
		return sides
	}
	for name, prefixes := range e.sources {
		if slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
			sides = append(sides, e.side(name))
		}
	}
	return sides
}

// judgeBetween returns the verdict on the first packet from one side to another.
func (e *Evaluator) judgeBetween(f *conntrack.Flow, from, to Side) conntrack.Verdict {
	if from.Local && to.Local {
		return conntrack.Unknown
	}
	t := traversal{evaluator: e, packet: firstPacket(f), conn: firstConn(f), verdict: conntrack.Allowed}
	if from.Local {
		t.setLocal(true, false)
		return t.fromHost(f, to)
	}
	t.packet.IIFName = from.Interface
	t.setLocal(false, e.isLocal(f.Requested().Addr(), f.Destination().Addr(), to))
	t.setDestination(f.Requested()).evaluate(ruleset.Prerouting)
	t.setLocal(false, to.Local)
	if to.Local {
		t.setDestination(f.Destination()).evaluate(ruleset.Input)
		return t.verdict
	}
	t.packet.OIFName = to.Interface
	t.setDestination(f.Destination()).evaluate(ruleset.Forward)
	t.packet.IIFName = ""
	t.evaluate(ruleset.Postrouting)
	return t.verdict
}

// isLocal reports whether requested is an address of the node. A packet was sent to requested, and
// translated to destination, which is on side to. Only policy of host endpoints uses the result.
func (e *Evaluator) isLocal(requested, destination netip.Addr, to Side) bool {
	if requested == destination {
		return to.Local
	}
	if !e.hosts || len(e.interfaces[requested]) > 0 {
		return false
	}
	sides := e.cfg.Finder.Find(requested)
	return len(sides) == 1 && sides[0].Local
}
