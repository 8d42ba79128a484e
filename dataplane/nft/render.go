// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// backend is the name under which this package reports errors.
const backend = "nft"

// Renderer keeps what the events say and makes the table that enforces it. It is pure: no kernel, no
// clock. The table depends on what the events have led to alone, not on the way there.
//
//	IP set ──▶ policy, profile ──▶ tier ──▶ endpoint ──▶ interface, host endpoints ──▶ base chains
//
// A change goes along the arrows, and only as far as it makes a difference: a member of a set changes one element, a rule
// one chain. A set that becomes empty, or is empty no longer, is more than that, for an empty one does not exist in the kernel
// and the rules that refer to it are rendered again.
//
// A Renderer is not safe for concurrent use.
type Renderer struct {
	cfg        RendererConfig
	sets       map[dataplane.IPSetID]*ipSet
	owners     map[policy.Key]*ruleOwner
	tiers      map[string]*tier // by the name of the chain
	subjects   map[policy.Key]*subject
	interfaces map[string]*iface
	// oddNames counts those whose name does not begin with the prefix; baseOdd says that the base chains reckon with some.
	oddNames int
	baseOdd  bool
	hosts    hosts
	nat      nat

	// elements are the sets of our own making.
	elements     map[string]*elementSet
	elementNames []string
	lists        listSets
	classes      classes
	// chains is the table's; changed are those that are not as the last flush left them, with whether they were there then.
	chains  map[string]*ruleset.Chain
	changed map[string]bool
	faults  map[policy.Key]error

	// What is to be rendered again. Each kind comes before the next.
	dirtySets       map[*ipSet]struct{}
	dirtyOwners     map[*ruleOwner]struct{}
	dirtyTiers      map[*tier]struct{}
	dirtySubjects   map[*subject]struct{}
	dirtyInterfaces map[string]struct{}
	dirtyHosts      bool
	dirtyFloating   map[netip.Addr]struct{}
	dirtyPools      bool
	dirtyNAT        bool
	// changedSets are those whose kernel sets the next flush looks at.
	changedSets map[*ipSet]struct{}
	hashes      map[tierID]string
}

// NewRenderer returns a Renderer that has seen no events. Errors: a join of every problem of the configuration.
func NewRenderer(cfg RendererConfig) (*Renderer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Renderer{
		cfg:        cfg,
		sets:       map[dataplane.IPSetID]*ipSet{},
		owners:     map[policy.Key]*ruleOwner{},
		tiers:      map[string]*tier{},
		subjects:   map[policy.Key]*subject{},
		interfaces: map[string]*iface{},
		hosts:      hosts{placed: map[string][]placed{}},
		nat: nat{
			pools: map[string]*dataplane.Pool{}, nodes: map[string]*dataplane.Node{},
			floating: map[netip.Addr]map[*subject]struct{}{}, internal: map[netip.Addr]map[*subject]struct{}{},
		},
		elements:        map[string]*elementSet{},
		lists:           newListSets(),
		classes:         newClasses(),
		chains:          map[string]*ruleset.Chain{},
		changed:         map[string]bool{},
		faults:          map[policy.Key]error{},
		dirtySets:       map[*ipSet]struct{}{},
		dirtyOwners:     map[*ruleOwner]struct{}{},
		dirtyTiers:      map[*tier]struct{}{},
		dirtySubjects:   map[*subject]struct{}{},
		dirtyInterfaces: map[string]struct{}{},
		dirtyFloating:   map[netip.Addr]struct{}{},
		changedSets:     map[*ipSet]struct{}{},
		hashes:          map[tierID]string{},
	}
	for _, s := range workloadSets(cfg) {
		s.wanted = true
		r.elements[s.head.Name] = s
	}
	for _, s := range slices.Concat(hostSets(cfg), natSets()) {
		r.elements[s.head.Name] = s
	}
	r.elementNames = slices.Sorted(maps.Keys(r.elements))
	for _, c := range r.baseChains() {
		r.setChain(c)
	}
	return r, nil
}

// Update takes the batch into the desired state. It cannot fail: what does not make sense comes to light in
// Errors. The Renderer keeps the objects of the batch, which must not change any more.
func (r *Renderer) Update(b dataplane.Batch) {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.IPSetUpdate:
			s := r.set(e.ID)
			s.replace(e)
			r.dirtySets[s] = struct{}{}
		case *dataplane.IPSetDelta:
			if s := r.sets[e.ID]; s != nil && s.exists { // without the set, the rules that refer to it fail
				s.update(e)
				r.dirtySets[s] = struct{}{}
			}
		case *dataplane.IPSetRemove:
			if s := r.sets[e.ID]; s != nil {
				s.clear()
				s.exists = false
				r.dirtySets[s] = struct{}{}
			}
		case *dataplane.PolicyUpdate:
			r.setOwner(e.Key, e.Policy, nil)
		case *dataplane.PolicyRemove:
			r.setOwner(e.Key, nil, nil)
		case *dataplane.ProfileUpdate:
			r.setOwner(profileKey(e.Name), nil, e.Profile)
		case *dataplane.ProfileRemove:
			r.setOwner(profileKey(e.Name), nil, nil)
		case *dataplane.EndpointUpdate:
			r.setSubject(e.Key, e.Endpoint, nil)
		case *dataplane.EndpointRemove:
			r.setSubject(e.Key, nil, nil)
		case *dataplane.HostEndpointUpdate:
			r.setSubject(e.Key, nil, e.HostEndpoint)
		case *dataplane.HostEndpointRemove:
			r.setSubject(e.Key, nil, nil)
		default:
			r.updateNAT(e)
		}
	}
}

// updateNAT takes the events that address translation goes by.
func (r *Renderer) updateNAT(e dataplane.Event) {
	if r.cfg.NAT.Disabled {
		return
	}
	switch e := e.(type) {
	case *dataplane.PoolUpdate:
		r.nat.pools[e.Pool.Name] = e.Pool
	case *dataplane.PoolRemove:
		delete(r.nat.pools, e.Name)
	case *dataplane.NodeUpdate:
		r.nat.nodes[e.Node.Name] = e.Node
		if !r.cfg.NAT.ExcludeNodes {
			return
		}
	case *dataplane.NodeRemove:
		delete(r.nat.nodes, e.Name)
		if !r.cfg.NAT.ExcludeNodes {
			return
		}
	default:
		return
	}
	r.dirtyPools, r.dirtyNAT = true, true
}

// set returns an IP set, which need not exist.
func (r *Renderer) set(id dataplane.IPSetID) *ipSet {
	s := r.sets[id]
	if s == nil {
		s = newIPSet(id)
		s.lookups = &r.lists
		r.sets[id] = s
	}
	return s
}

// forgetSet drops a set that neither exists nor is referred to, nor has kernel sets that the next flush takes away. It may be forgotten already, and
// another have its place.
func (r *Renderer) forgetSet(s *ipSet) {
	if r.sets[s.id] == s && !s.exists && len(s.users)+len(s.parts) == 0 {
		delete(r.sets, s.id)
	}
}

// owner returns a policy or profile, which need not exist.
func (r *Renderer) owner(key policy.Key) *ruleOwner {
	o := r.owners[key]
	if o == nil {
		o = &ruleOwner{key: key, tiers: map[*tier]struct{}{}, users: map[*subject]struct{}{}, indexes: map[*tierIndex]struct{}{}}
		r.owners[key] = o
	}
	return o
}

// forgetOwner drops a policy or profile that neither exists nor is referred to. It may be forgotten already, and another have its place.
func (r *Renderer) forgetOwner(o *ruleOwner) {
	if _, dirty := r.dirtyOwners[o]; r.owners[o.key] == o && !dirty && !o.exists() && len(o.tiers)+len(o.users)+len(o.indexes) == 0 {
		delete(r.owners, o.key)
	}
}

func (r *Renderer) setOwner(key policy.Key, p *dataplane.Policy, prof *dataplane.Profile) {
	o := r.owner(key)
	if o.exists() && o.policy == p && o.profile == prof {
		return
	}
	o.policy, o.profile = p, prof
	r.dirtyOwners[o] = struct{}{}
}

func (r *Renderer) setSubject(key policy.Key, w *dataplane.Endpoint, h *dataplane.HostEndpoint) {
	s := r.subjects[key]
	switch {
	case s == nil && w == nil && h == nil:
		return
	case s == nil:
		s = &subject{key: key}
		r.subjects[key] = s
	}
	if !r.cfg.NAT.Disabled {
		r.setFloating(s, w)
	}
	if s.workload != nil {
		r.unclaim(s)
	}
	r.dirtyHosts = r.dirtyHosts || h != nil || s.host != nil
	if byAddress(s.host) {
		r.hosts.count--
	}
	if byAddress(h) {
		r.hosts.count++
	}
	s.workload, s.host = w, h
	if w != nil {
		r.claim(s)
	}
	r.dirtySubjects[s] = struct{}{}
}

// setChain puts a chain into the table.
func (r *Renderer) setChain(c *ruleset.Chain) {
	old, c := r.chains[c.Name], r.lists.name(c)
	if old.Equal(c) {
		return
	}
	r.lists.replace(old, c)
	if _, ok := r.changed[c.Name]; !ok {
		r.changed[c.Name] = old != nil
	}
	r.chains[c.Name] = c
}

// dropChain takes a chain out of the table, if it is there.
func (r *Renderer) dropChain(name string) {
	if r.chains[name] == nil {
		return
	}
	if _, ok := r.changed[name]; !ok {
		r.changed[name] = true
	}
	r.lists.replace(r.chains[name], nil)
	delete(r.chains, name)
}

// keepChain puts a chain into the table or takes it out.
func (r *Renderer) keepChain(name string, c *ruleset.Chain, keep bool) {
	if keep {
		r.setChain(c)
	} else {
		r.dropChain(name)
	}
}

// fault notes what is wrong with an object, or that nothing is.
func (r *Renderer) fault(key policy.Key, err error) {
	if err == nil {
		delete(r.faults, key)
		return
	}
	r.faults[key] = err
}

// settleSubjects renders tiers and endpoints.
func (r *Renderer) settleSubjects() {
	for len(r.dirtyTiers) > 0 {
		for t := range r.dirtyTiers {
			delete(r.dirtyTiers, t)
			r.renderTier(t)
		}
	}
	for len(r.dirtySubjects) > 0 {
		for s := range r.dirtySubjects {
			delete(r.dirtySubjects, s)
			r.renderSubject(s)
		}
	}
}

// pending reports whether something has changed since the last flush.
func (r *Renderer) pending() bool {
	return r.dirtyHosts || r.dirtyNAT || len(r.dirtySets)+len(r.dirtyOwners)+len(r.dirtyTiers)+len(r.dirtySubjects)+
		len(r.dirtyInterfaces)+len(r.changed)+len(r.changedSets) > 0 || r.classes.pending()
}

// settle renders what has to be rendered again, in the order of dependency.
func (r *Renderer) settle() {
	for s := range r.dirtySets {
		if s.settle() {
			for o := range s.users {
				r.dirtyOwners[o] = struct{}{}
			}
		}
		r.changedSets[s] = struct{}{}
	}
	r.dirtySets = emptied(r.dirtySets)
	for _, o := range sortedKeys(r.dirtyOwners, func(o *ruleOwner) policy.Key { return o.key }) {
		r.renderOwner(o)
	}
	owners := r.dirtyOwners
	r.dirtyOwners = map[*ruleOwner]struct{}{}
	r.settleSubjects()
	for { // Groups that have too many classes send their endpoints back.
		r.settleClasses()
		if len(r.dirtySubjects) == 0 {
			break
		}
		r.settleSubjects()
	}
	for o := range owners {
		r.forgetOwner(o)
	}
	for s := range r.changedSets {
		r.forgetSet(s)
	}
	if r.dirtyHosts { // before interfaces, which look at what is known of the host
		r.settleHosts()
	}
	r.settleNames()
	for name := range r.dirtyInterfaces {
		r.renderInterface(name)
	}
	r.dirtyInterfaces = emptied(r.dirtyInterfaces)
	r.dirtyTiers, r.dirtySubjects = emptied(r.dirtyTiers), emptied(r.dirtySubjects)
	r.dirtyHosts = false
	if r.dirtyNAT {
		r.settleNAT()
		r.dirtyNAT = false
	}
	r.hashes = emptied(r.hashes)
}
