// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// ruleCache finds rules by their IDs, and endpoints by their addresses. It keeps deleted rules and
// endpoints for some time, because a deleted rule may have decided about a packet that is reported
// later. It is safe for concurrent use.
type ruleCache struct {
	// full has a token when most entries may belong to deleted objects. Then call age and fill.
	full chan struct{}

	mu         sync.Mutex
	now, older entries
	limit      int // maximum size of now
	// interfaces caches names of interfaces, by index.
	interfaces map[uint32]string
}

// entries has rules and endpoints, by ID and by address.
type entries struct {
	rules     map[string]rule
	endpoints map[netip.Addr]string
}

// spare is how many entries of deleted objects are kept, in addition to one for each present entry.
// It also limits the number of interface names.
const spare = 10_000

func newEntries() entries {
	return entries{rules: map[string]rule{}, endpoints: map[netip.Addr]string{}}
}

func (e entries) size() int { return len(e.rules) + len(e.endpoints) }

// rule is the place of a rule in a policy or profile.
type rule struct {
	owner       policy.Key
	tier        string
	policyType  policy.Type
	index       int
	annotations map[string]string
}

func newRuleCache() *ruleCache {
	return &ruleCache{full: make(chan struct{}, 1), now: newEntries(), limit: spare, interfaces: map[uint32]string{}}
}

// record processes an update.
func (c *ruleCache) record(u policy.Update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.add(u)
	if c.now.size() > c.limit {
		select {
		case c.full <- struct{}{}:
		default:
		}
	}
}

// age removes the entries of objects that were deleted before the last call of age. Call fill
// afterwards.
func (c *ruleCache) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.older = newEntries(), c.now
}

// fill adds the entries of all objects in w. Entries that were added since newRuleCache or age are
// newer than w, and stay.
func (c *ruleCache) fill(w verdict.World) {
	all := newEntries()
	for key, resource := range w {
		all.add(policy.Update{Key: key, Resource: resource})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(all.rules, c.now.rules)
	maps.Copy(all.endpoints, c.now.endpoints)
	c.now, c.limit = all, 2*all.size()+spare
}

// ruleLocked returns the rule with an ID, if it is known.
func (c *ruleCache) ruleLocked(id string) (rule, bool) {
	if r, ok := c.now.rules[id]; ok {
		return r, true
	}
	r, ok := c.older.rules[id]
	return r, ok
}

// endpointLocked returns the name of the endpoint with an address; empty if none is known.
func (c *ruleCache) endpointLocked(addr netip.Addr) string {
	return cmp.Or(c.now.endpoints[addr], c.older.endpoints[addr])
}

func (c *ruleCache) interfaceLocked(index uint32, find func(uint32) string) string {
	if index == 0 {
		return ""
	}
	name, known := c.interfaces[index]
	if !known {
		if len(c.interfaces) >= spare {
			clear(c.interfaces)
		}
		name = find(index)
		c.interfaces[index] = name
	}
	return name
}

// add adds the entries of the object in an update, if it has one.
func (e entries) add(u policy.Update) {
	admitted, _ := u.Admit() // replaces rules that are not understood; nil for a resource that is not enforced
	switch r := admitted.(type) {
	case *policy.Policy:
		e.addRules(u.Key, r.TierName(), r.Ingress, r.Egress)
	case *policy.Profile:
		e.addRules(u.Key, "", r.Ingress, r.Egress)
	case *policy.WorkloadEndpoint:
		for _, addr := range r.Addresses {
			e.endpoints[addr.Unmap()] = r.Namespace + "/" + r.Name
		}
		e.addDefaults(r.Profiles)
	case *policy.HostEndpoint:
		e.addDefaults(r.Profiles)
	}
}

// addDefaults adds the rules that apply if there are no profiles of these names.
func (e entries) addDefaults(profiles []string) {
	for _, name := range profiles {
		if builtin, ok := policy.BuiltinProfile(name); ok {
			e.addRules(builtin.Key(), "", builtin.Ingress, builtin.Egress)
		} else {
			e.addMissing(name)
		}
	}
}

// addMissing adds the rules that replace a missing profile with a name. These rules deny
// everything.
func (e entries) addMissing(name string) {
	key := (&policy.Profile{Name: name}).Key()
	deny := []policy.Rule{{Action: policy.Deny, Metadata: &policy.RuleMetadata{
		Annotations: map[string]string{"wayleave.dev/missing": "there is no such profile"},
	}}}
	for _, direction := range []policy.Type{policy.Ingress, policy.Egress} {
		if _, exists := e.rules[policy.RuleIDs(key, direction, deny)[0]]; exists {
			return // a profile with the same rules
		}
	}
	e.addRules(key, "", deny, deny)
}

func (e entries) addRules(owner policy.Key, tier string, ingress, egress []policy.Rule) {
	for direction, rules := range map[policy.Type][]policy.Rule{policy.Ingress: ingress, policy.Egress: egress} {
		for i, id := range policy.RuleIDs(owner, direction, rules) {
			known := rule{owner: owner, tier: tier, policyType: direction, index: i}
			if rules[i].Metadata != nil {
				known.annotations = rules[i].Metadata.Annotations
			}
			e.rules[id] = known
		}
	}
}

// verdict returns the decision about a packet, and its rule.
func (c *ruleCache) verdict(e nflog.Entry, interfaceName func(uint32) string) api.Verdict {
	decision, by, _ := strings.Cut(e.Prefix, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	v := api.Verdict{
		Time: time.Now(), Decision: decision, From: c.endpointLocked(e.Src), To: c.endpointLocked(e.Dst),
		Src: e.Src.String(), Dst: e.Dst.String(), Protocol: e.Protocol.String(), SrcPort: e.SrcPort, DstPort: e.DstPort,
		In: c.interfaceLocked(e.In, interfaceName), Out: c.interfaceLocked(e.Out, interfaceName),
	}
	r, ok := c.ruleLocked(by)
	if !ok {
		v.Reason = by
		return v
	}
	v.Policy, v.Tier, v.Rule, v.Annotations = &r.owner, r.tier, &r.index, r.annotations
	v.Direction = strings.ToLower(string(r.policyType))
	return v
}
