// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// Evaluator answers questions about one state of the world. It is immutable and safe
// for concurrent use.
type Evaluator struct {
	rejected  map[policy.Key]error
	tiers     []*tier
	profiles  map[string]*profile
	endpoints map[policy.Key]*object
	addresses map[netip.Addr][]*object // endpoints by address, sorted by key
	sets      []*object                // network sets, sorted by key
	staged    map[policy.Key]bool      // the keys that staged policies would have when enforced
}

// tier is a tier that some policy names, with its policies in order.
type tier struct {
	*policy.Tier
	missing  bool
	policies []*compiledPolicy
}

// profile is a profile with its rules compiled.
type profile struct {
	ingress, egress ruleList
}

// object is what selectors select: a workload endpoint or a network set.
type object struct {
	key    policy.Key
	labels selector.Map
	// endpoint is nil for a network set.
	endpoint *policy.WorkloadEndpoint
	nets     policy.Nets
}

// New reads a world. Later changes of the world do not reach the evaluator.
func New(w World) *Evaluator {
	e := &Evaluator{
		rejected:  map[policy.Key]error{},
		profiles:  map[string]*profile{},
		endpoints: map[policy.Key]*object{},
		addresses: map[netip.Addr][]*object{},
		staged:    map[policy.Key]bool{},
	}
	valid := e.validate(w)
	labels := map[string]map[string]string{}
	var policies []*compiledPolicy
	for _, r := range valid {
		switch r := r.(type) {
		case *policy.Profile:
			if e.addProfile(r) {
				labels[r.Name] = r.LabelsToApply
			}
		case *policy.Policy:
			if p, err := compilePolicy(r); err != nil {
				e.rejected[r.Key()] = err
			} else {
				policies = append(policies, p)
			}
		}
	}
	for _, r := range valid {
		switch r := r.(type) {
		case *policy.WorkloadEndpoint:
			e.addEndpoint(r, labels)
		case *policy.NetworkSet:
			e.sets = append(e.sets, &object{key: r.Key(), nets: r.Nets, labels: effectiveLabels(r.Namespace, r.Labels)})
		}
	}
	e.addTiers(w, policies)
	return e
}

// Rejected returns the resources of the world that were treated as absent because they
// are invalid, each with the reason.
func (e *Evaluator) Rejected() map[policy.Key]error { return maps.Clone(e.rejected) }

// validate returns the valid resources, sorted by key.
func (e *Evaluator) validate(w World) []policy.Resource {
	var valid []policy.Resource
	for _, key := range slices.SortedFunc(maps.Keys(w), policy.Key.Compare) {
		u := policy.Update{Key: key, Resource: w[key]}
		if err := u.Validate(); err != nil {
			e.rejected[key] = err
		} else if u.Resource != nil {
			valid = append(valid, u.Resource)
		}
	}
	return valid
}

func (e *Evaluator) addProfile(r *policy.Profile) bool {
	ingress, err := compileRules(r.Key(), policy.Ingress, r.Ingress)
	if err != nil {
		e.rejected[r.Key()] = err
		return false
	}
	egress, err := compileRules(r.Key(), policy.Egress, r.Egress)
	if err != nil {
		e.rejected[r.Key()] = err
		return false
	}
	e.profiles[r.Name] = &profile{ingress: ingress, egress: egress}
	return true
}

func (e *Evaluator) addEndpoint(r *policy.WorkloadEndpoint, profileLabels map[string]map[string]string) {
	layers := []map[string]string{r.Labels}
	for _, name := range r.Profiles {
		layers = append(layers, profileLabels[name])
	}
	o := &object{key: r.Key(), endpoint: r, labels: effectiveLabels(r.Namespace, layers...)}
	e.endpoints[o.key] = o
	for _, addr := range r.Addresses {
		if !slices.Contains(e.addresses[addr], o) {
			e.addresses[addr] = append(e.addresses[addr], o)
		}
	}
}

// effectiveLabels lays labels over one another: the first layer that has a label wins,
// and the namespace label always tells the namespace.
func effectiveLabels(namespace string, layers ...map[string]string) selector.Map {
	labels := selector.Map{}
	for _, layer := range slices.Backward(layers) {
		maps.Copy(labels, layer)
	}
	delete(labels, policy.LabelNamespace)
	if namespace != "" {
		labels[policy.LabelNamespace] = namespace
	}
	return labels
}

// addTiers puts the policies into their tiers, and both into order.
func (e *Evaluator) addTiers(w World, policies []*compiledPolicy) {
	byName := map[string]*tier{}
	for _, p := range policies {
		name := p.TierName()
		t := byName[name]
		if t == nil {
			t = e.findTier(w, name)
			byName[name] = t
			e.tiers = append(e.tiers, t)
		}
		t.policies = append(t.policies, p)
		if p.Staged {
			e.staged[enforcedKey(p.key)] = true
		}
	}
	slices.SortFunc(e.tiers, compareTiers)
	for _, t := range e.tiers {
		slices.SortFunc(t.policies, func(a, b *compiledPolicy) int {
			return policy.ComparePolicies(a.Policy, b.Policy)
		})
	}
}

// enforcedKey is the key of the policy that a staged policy stages.
func enforcedKey(k policy.Key) policy.Key {
	k.Kind = policy.KindPolicy
	return k
}

// findTier finds a tier's settings: its resource, what is built in, or those of a tier
// that nobody made.
func (e *Evaluator) findTier(w World, name string) *tier {
	key := (&policy.Tier{Name: name}).Key()
	if r, ok := w[key].(*policy.Tier); ok && e.rejected[key] == nil {
		return &tier{Tier: r}
	}
	if builtin, ok := policy.BuiltinTier(name); ok {
		return &tier{Tier: builtin}
	}
	return &tier{Tier: &policy.Tier{Name: name}, missing: true}
}

// compareTiers orders tiers that exist before those that do not, the former by their
// settings, the latter by name.
func compareTiers(a, b *tier) int {
	switch {
	case a.missing && b.missing:
		return cmp.Compare(a.Name, b.Name)
	case a.missing:
		return 1
	case b.missing:
		return -1
	default:
		return policy.CompareTiers(a.Tier, b.Tier)
	}
}

// objectsAt returns the endpoints that hold an address and the network sets that contain it.
func (e *Evaluator) objectsAt(addr netip.Addr) []*object {
	objects := slices.Clone(e.addresses[addr])
	for _, set := range e.sets {
		if contains(set.nets, addr) {
			objects = append(objects, set)
		}
	}
	return objects
}

// endpoint returns the endpoint of one side of a flow: the one that is named or, if
// none is, the first that holds the address. It returns nil if there is none.
func (e *Evaluator) endpoint(name policy.Key, addr netip.Addr) *object {
	if name != (policy.Key{}) {
		return e.endpoints[name]
	}
	if holders := e.addresses[addr]; len(holders) > 0 {
		return holders[0]
	}
	return nil
}

// contains reports whether one of the prefixes contains the address.
func contains(nets policy.Nets, addr netip.Addr) bool {
	return slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(addr) })
}
