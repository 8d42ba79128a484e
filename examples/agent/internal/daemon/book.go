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

// ruleBook finds rules by their IDs, and endpoints by their addresses. It keeps deleted rules and
// endpoints for some time, because a deleted rule may have decided about a packet that is reported
// later. It is safe for concurrent use.
type ruleBook struct {
	// full has a token when most entries may belong to deleted objects. Then call age and fill.
	full chan struct{}

	mu         sync.Mutex
	now, older page
	limit      int // maximum size of now
	// interfaces caches names of interfaces, by index.
	interfaces map[uint32]string
}

// page has rules and endpoints: a ruleBook has a current and an older page.
type page struct {
	rules     map[string]rule
	endpoints map[netip.Addr]string
}

// spare is how many entries of deleted objects are kept, in addition to one for each present entry.
// It also limits the number of interface names.
const spare = 10_000

func newPage() page { return page{rules: map[string]rule{}, endpoints: map[netip.Addr]string{}} }

func (p page) size() int { return len(p.rules) + len(p.endpoints) }

// rule says which policy or profile has a rule, and where.
type rule struct {
	owner       policy.Key
	tier        string
	policyType  policy.Type
	index       int
	annotations map[string]string
}

func newRuleBook() *ruleBook {
	return &ruleBook{full: make(chan struct{}, 1), now: newPage(), limit: spare, interfaces: map[uint32]string{}}
}

// note processes an update.
func (b *ruleBook) note(u policy.Update) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.note(u)
	if b.now.size() > b.limit {
		select {
		case b.full <- struct{}{}:
		default:
		}
	}
}

// age removes the entries of objects that were deleted before the last call of age. Call fill
// afterwards.
func (b *ruleBook) age() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now, b.older = newPage(), b.now
}

// fill adds the entries of all objects in w. Entries that were added since newRuleBook or age are
// newer than w, and stay.
func (b *ruleBook) fill(w verdict.World) {
	all := newPage()
	for key, resource := range w {
		all.note(policy.Update{Key: key, Resource: resource})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(all.rules, b.now.rules)
	maps.Copy(all.endpoints, b.now.endpoints)
	b.now, b.limit = all, 2*all.size()+spare
}

// ruleLocked returns the rule with an ID, if it is known.
func (b *ruleBook) ruleLocked(id string) (rule, bool) {
	if r, ok := b.now.rules[id]; ok {
		return r, true
	}
	r, ok := b.older.rules[id]
	return r, ok
}

// endpointLocked returns the name of the endpoint with an address; empty if none is known.
func (b *ruleBook) endpointLocked(addr netip.Addr) string {
	return cmp.Or(b.now.endpoints[addr], b.older.endpoints[addr])
}

func (b *ruleBook) interfaceLocked(index uint32, ask func(uint32) string) string {
	if index == 0 {
		return ""
	}
	name, known := b.interfaces[index]
	if !known {
		if len(b.interfaces) >= spare {
			clear(b.interfaces)
		}
		name = ask(index)
		b.interfaces[index] = name
	}
	return name
}

// note processes an update.
func (p page) note(u policy.Update) {
	admitted, _ := u.Admit() // replaces rules that are not understood; nil for a resource that is not enforced
	switch r := admitted.(type) {
	case *policy.Policy:
		p.noteRules(u.Key, r.TierName(), r.Ingress, r.Egress)
	case *policy.Profile:
		p.noteRules(u.Key, "", r.Ingress, r.Egress)
	case *policy.WorkloadEndpoint:
		for _, addr := range r.Addresses {
			p.endpoints[addr.Unmap()] = r.Namespace + "/" + r.Name
		}
		p.noteDefaults(r.Profiles)
	case *policy.HostEndpoint:
		p.noteDefaults(r.Profiles)
	}
}

// noteDefaults adds the rules that apply if there are no profiles of these names.
func (p page) noteDefaults(profiles []string) {
	for _, name := range profiles {
		if builtin, ok := policy.BuiltinProfile(name); ok {
			p.noteRules(builtin.Key(), "", builtin.Ingress, builtin.Egress)
		} else {
			p.noteMissing(name)
		}
	}
}

// noteMissing adds the rules that replace a missing profile with a name. These rules deny
// everything.
func (p page) noteMissing(name string) {
	key := (&policy.Profile{Name: name}).Key()
	deny := []policy.Rule{{Action: policy.Deny, Metadata: &policy.RuleMetadata{
		Annotations: map[string]string{"wayleave.dev/missing": "there is no such profile"},
	}}}
	for _, direction := range []policy.Type{policy.Ingress, policy.Egress} {
		if _, there := p.rules[policy.RuleIDs(key, direction, deny)[0]]; there {
			return // a profile with the same rules
		}
	}
	p.noteRules(key, "", deny, deny)
}

func (p page) noteRules(owner policy.Key, tier string, ingress, egress []policy.Rule) {
	for direction, rules := range map[policy.Type][]policy.Rule{policy.Ingress: ingress, policy.Egress: egress} {
		for i, id := range policy.RuleIDs(owner, direction, rules) {
			known := rule{owner: owner, tier: tier, policyType: direction, index: i}
			if rules[i].Metadata != nil {
				known.annotations = rules[i].Metadata.Annotations
			}
			p.rules[id] = known
		}
	}
}

// verdict returns the decision about a packet, and its rule.
func (b *ruleBook) verdict(e nflog.Entry, interfaceName func(uint32) string) api.Verdict {
	decision, by, _ := strings.Cut(e.Prefix, " ")
	b.mu.Lock()
	defer b.mu.Unlock()
	v := api.Verdict{
		Time: time.Now(), Decision: decision, From: b.endpointLocked(e.Src), To: b.endpointLocked(e.Dst),
		Src: e.Src.String(), Dst: e.Dst.String(), Protocol: e.Protocol.String(), SrcPort: e.SrcPort, DstPort: e.DstPort,
		In: b.interfaceLocked(e.In, interfaceName), Out: b.interfaceLocked(e.Out, interfaceName),
	}
	r, ok := b.ruleLocked(by)
	if !ok {
		v.Reason = by
		return v
	}
	v.Policy, v.Tier, v.Rule, v.Annotations = &r.owner, r.tier, &r.index, r.annotations
	v.Direction = strings.ToLower(string(r.policyType))
	return v
}
