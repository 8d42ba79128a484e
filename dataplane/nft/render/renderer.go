// SPDX-License-Identifier: Apache-2.0

package render

import (
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/internal/outcome"
)

// backend is the name of the backend in errors.
const backend = "nft"

// Renderer translates dataplane events into an nftables table. The table depends on the desired
// state, the interfaces of the host and the configuration, and not on the order of events.
//
//	IP set ──▶ policy, profile ──▶ tier ──▶ endpoint ──▶ interface, host endpoints ──▶ base chains
//
// An object to the right of an arrow refers to those on the left. When an object changes, it is
// rendered again. The objects that refer to it are rendered again only if their rules change, too.
// So a new member of a set changes one element in the kernel, and a new rule changes one chain.
//
// An empty IP set is not in the kernel. So if an IP set becomes empty or ceases to be empty, the
// rules that refer to it are rendered again.
//
// A Renderer is not safe for concurrent use.
type Renderer struct {
	cfg    *Config
	table  *table
	base   *baseChains
	faults faults

	sets      *ipSets
	policies  *policies
	tiers     *tiers
	lookups   *outcome.Lookups
	endpoints *endpoints
	blocked   *blocked
}

// New returns a Renderer with an empty desired state.
//
// Errors: a join of all problems of the configuration.
func New(cfg Config) (*Renderer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := newTable(&cfg)
	r := &Renderer{cfg: &cfg, table: t, faults: faults{}, sets: newIPSets(&t.chains.Lists)}
	st, dirtySubjects := &statements{r.cfg}, newDirtySet[*subject]()
	r.base = &baseChains{cfg: r.cfg, statements: st, verdicts: &verdicts{r.cfg, st}}
	r.wirePolicies(st, dirtySubjects)
	r.wireEndpoints(st, dirtySubjects)
	t.setChains(r.base.all())
	return r, nil
}

// Config returns the configuration with its defaults.
func (r *Renderer) Config() Config { return *r.cfg }

// Update applies a batch to the desired state. The Renderer keeps the objects of the batch, so the
// caller must not change them. If an object cannot be rendered, the method Errors reports it.
func (r *Renderer) Update(b dataplane.Batch) {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.IPSetUpdate:
			r.sets.replace(e)
		case *dataplane.IPSetDelta:
			r.sets.update(e)
		case *dataplane.IPSetRemove:
			r.sets.remove(e.ID)
		case *dataplane.PolicyUpdate:
			r.policies.set(e.Key, e.Policy, nil)
		case *dataplane.PolicyRemove:
			r.policies.set(e.Key, nil, nil)
		case *dataplane.ProfileUpdate:
			r.policies.set(profileKey(e.Name), nil, e.Profile)
		case *dataplane.ProfileRemove:
			r.policies.set(profileKey(e.Name), nil, nil)
		case *dataplane.EndpointUpdate:
			r.endpoints.set(e.Key, e.Endpoint, nil)
		case *dataplane.EndpointRemove:
			r.endpoints.set(e.Key, nil, nil)
		case *dataplane.HostEndpointUpdate:
			r.endpoints.set(e.Key, nil, e.HostEndpoint)
		case *dataplane.HostEndpointRemove:
			r.endpoints.set(e.Key, nil, nil)
		case *dataplane.NodeUpdate:
			r.endpoints.nodes.set(e.Node.Name, e.Node.Addresses)
		case *dataplane.NodeRemove:
			r.endpoints.nodes.set(e.Name, nil)
		default:
			r.endpoints.nat.update(e)
		}
	}
}

// Pending reports whether the next Flush has changes to return.
//
// There is one exception. Errors, Table and some other methods render changes before Flush does.
// After such a call, Pending may return false although the next Flush returns changes. These are
// only changes of elements, in the sets and maps for interfaces, host endpoints, nodes and address
// translation.
func (r *Renderer) Pending() bool {
	return r.sets.dirty.len()+r.sets.changed.len()+r.policies.dirty.len()+r.tiers.dirty.len() > 0 ||
		r.endpoints.pending() || r.table.chains.Pending() || r.lookups.Pending()
}

// renderDirty renders all dirty objects, in order of dependency.
func (r *Renderer) renderDirty() {
	r.sets.markUsers(r.policies.dirty.mark)
	owners := r.policies.renderDirty()
	r.renderEndpoints()
	for { // Endpoints of groups that are now over a limit become dirty again.
		r.lookups.Update()
		if r.endpoints.dirty.len() == 0 {
			break
		}
		r.renderEndpoints()
	}
	for _, o := range owners {
		r.policies.forget(o)
	}
	r.sets.forgetUnused()
	e := r.endpoints
	if e.hosts.dirty { // maps all interfaces, so interfaceChanged does nothing below
		e.hosts.update()
	}
	r.blocked.update()
	e.renderInterfaces()
	e.hosts.dirty = false
	r.updateBase()
	if e.nat.dirty {
		e.nat.render()
	}
	e.nodes.dirty = false // nodes changes its elements at once
	r.tiers.hashes.clear()
}

// renderEndpoints renders tiers and endpoints.
func (r *Renderer) renderEndpoints() {
	r.tiers.dirty.drain(r.tiers.render)
	r.endpoints.dirty.drain(r.endpoints.render)
}

// updateBase renders the base chains again if the values on which they depend have changed.
func (r *Renderer) updateBase() {
	next := *r.base
	next.unprefixed, next.host = r.endpoints.interfaces.unprefixed > 0, r.endpoints.hosts.order.state()
	next.down = r.table.elements[setEndpoints].Len() > r.table.elements[setUp].Len()
	next.ports = r.blocked.ports
	if next.unprefixed == r.base.unprefixed && next.host == r.base.host && next.down == r.base.down &&
		next.ports.equal(r.base.ports) {
		return
	}
	old := r.base.all()
	*r.base = next
	r.table.setChains(r.base.all(), old...)
}
