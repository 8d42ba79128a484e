// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// player takes one batch into a state. Its methods return what is wrong with an event, or "".
type player struct {
	state    *State
	refs     refs
	complete bool // in sync, or will be after this batch

	step int // of the event before
	id   any
	seen map[any]bool
	// tunnels that the batch removes.
	tunnels []dataplane.TunnelKey
}

// object is the identity of what an event is about, so that two events of one object can be told.
type object struct {
	kind string
	id   any
}

// order checks the event's place in the batch.
func (p *player) order(e dataplane.Event) string {
	step, obj := place(e)
	if step == 0 {
		return "unknown event"
	}
	if p.seen == nil {
		p.seen = map[any]bool{}
	}
	if p.seen[obj] {
		return "second event of the same object in a batch"
	}
	p.seen[obj] = true
	if step < p.step {
		return "out of order"
	}
	if step == p.step && !sorted(p.id, obj.id) {
		return "not sorted by id"
	}
	p.step, p.id = step, obj.id
	return ""
}

// place returns the step of the batch that the event belongs to, from 1, and what it is about.
func place(e dataplane.Event) (int, object) {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		return 1, object{"ipset", e.ID}
	case *dataplane.IPSetDelta:
		return 2, object{"ipset", e.ID}
	case *dataplane.PolicyUpdate:
		return 3, object{"policy", e.Key}
	case *dataplane.ProfileUpdate:
		return 4, object{"profile", e.Name}
	case *dataplane.EndpointUpdate:
		return 5, object{"endpoint", e.Key}
	case *dataplane.HostEndpointUpdate:
		return 6, object{"endpoint", e.Key}
	case *dataplane.EndpointRemove:
		return 7, object{"endpoint", e.Key}
	case *dataplane.HostEndpointRemove:
		return 8, object{"endpoint", e.Key}
	case *dataplane.ProfileRemove:
		return 9, object{"profile", e.Name}
	case *dataplane.PolicyRemove:
		return 10, object{"policy", e.Key}
	case *dataplane.IPSetRemove:
		return 11, object{"ipset", e.ID}
	case *dataplane.InSync:
		return lastStep, object{"in-sync", ""}
	default:
		return placeNetwork(e)
	}
}

// sorted reports whether a comes before b; both are ids of one step.
func sorted(a, b any) bool {
	switch b := b.(type) {
	case policy.Key:
		return a.(policy.Key).Compare(b) < 0
	case dataplane.IPSetID:
		return a.(dataplane.IPSetID) < b
	case string:
		return a.(string) < b
	default:
		return sortedNetwork(a, b)
	}
}

func (p *player) play(e dataplane.Event) string {
	switch e := e.(type) {
	case *dataplane.IPSetUpdate:
		return p.ipSetUpdate(e)
	case *dataplane.IPSetDelta:
		return p.ipSetDelta(e)
	case *dataplane.PolicyUpdate:
		return p.policyUpdate(e)
	case *dataplane.ProfileUpdate:
		return p.profileUpdate(e)
	case *dataplane.EndpointUpdate:
		return p.endpointUpdate(e)
	case *dataplane.EndpointRemove:
		return p.endpointRemove(e)
	case *dataplane.HostEndpointUpdate:
		return p.hostEndpointUpdate(e)
	case *dataplane.HostEndpointRemove:
		return remove(p.state.HostEndpoints, e.Key, nil, func(old *dataplane.HostEndpoint) { p.refs.host(old, -1) })
	case *dataplane.ProfileRemove:
		return remove(p.state.Profiles, e.Name, p.refs.profiles, func(old *dataplane.Profile) {
			p.refs.rules(old.Ingress, old.Egress, -1)
		})
	case *dataplane.PolicyRemove:
		return remove(p.state.Policies, e.Key, p.refs.policies, func(old *dataplane.Policy) {
			p.refs.rules(old.Ingress, old.Egress, -1)
		})
	case *dataplane.IPSetRemove:
		return remove(p.state.Sets, e.ID, p.refs.sets, func(Set) {})
	case *dataplane.InSync:
		if p.state.InSync {
			return "a second in-sync"
		}
		p.state.InSync = true
		return ""
	default:
		return p.playNetwork(e)
	}
}

// remove deletes an object that exists and that nothing refers to.
func remove[K comparable, V any](from map[K]V, k K, refs map[K]int, forget func(V)) string {
	old, ok := from[k]
	if !ok {
		return "removes what does not exist"
	}
	if refs[k] != 0 {
		return fmt.Sprintf("removed while %d others refer to it", refs[k])
	}
	forget(old)
	delete(from, k)
	return ""
}

func (p *player) ipSetUpdate(e *dataplane.IPSetUpdate) string {
	if msg := checkSetID(e.ID, e.Type); msg != "" {
		return msg
	}
	if old, ok := p.state.Sets[e.ID]; ok && old.Type != e.Type {
		return "changes the type of a set"
	}
	if msg := checkMembers(e.Type, e.Members); msg != "" {
		return msg
	}
	p.state.Sets[e.ID] = Set{Type: e.Type, Members: e.Members}
	return ""
}

func (p *player) ipSetDelta(e *dataplane.IPSetDelta) string {
	old, ok := p.state.Sets[e.ID]
	if !ok {
		return "the set does not exist"
	}
	if len(e.Added)+len(e.Removed) == 0 {
		return "changes nothing"
	}
	for _, list := range [][]dataplane.Member{e.Added, e.Removed} {
		if msg := checkMembers(old.Type, list); msg != "" {
			return msg
		}
	}
	for _, m := range e.Removed {
		if !contains(old.Members, m) {
			return "removes the absent member " + m.String()
		}
	}
	for _, m := range e.Added {
		if contains(old.Members, m) {
			return "adds the present member " + m.String()
		}
	}
	members := append(without(old.Members, e.Removed), e.Added...)
	slices.SortFunc(members, dataplane.Member.Compare)
	p.state.Sets[e.ID] = Set{Type: old.Type, Members: members}
	return ""
}

func (p *player) policyUpdate(e *dataplane.PolicyUpdate) string {
	if msg := checkPolicy(e.Key, e.Policy); msg != "" {
		return msg
	}
	if msg := p.checkSets(e.Policy.Ingress, e.Policy.Egress); msg != "" {
		return msg
	}
	if old, ok := p.state.Policies[e.Key]; ok {
		p.refs.rules(old.Ingress, old.Egress, -1)
	}
	p.refs.rules(e.Policy.Ingress, e.Policy.Egress, 1)
	p.state.Policies[e.Key] = e.Policy
	return ""
}

func (p *player) profileUpdate(e *dataplane.ProfileUpdate) string {
	if msg := checkProfile(e.Name, e.Profile); msg != "" {
		return msg
	}
	if msg := p.checkSets(e.Profile.Ingress, e.Profile.Egress); msg != "" {
		return msg
	}
	if old, ok := p.state.Profiles[e.Name]; ok {
		p.refs.rules(old.Ingress, old.Egress, -1)
	}
	p.refs.rules(e.Profile.Ingress, e.Profile.Egress, 1)
	p.state.Profiles[e.Name] = e.Profile
	return ""
}

// checkSets checks that every set that the rules refer to exists and has the right type.
func (p *player) checkSets(ingress, egress []dataplane.Rule) string {
	for _, rules := range [][]dataplane.Rule{ingress, egress} {
		for id, want := range setsOf(rules) {
			set, ok := p.state.Sets[id]
			if !ok {
				return "refers to the absent set " + string(id)
			}
			if set.Type != want {
				return fmt.Sprintf("refers to set %s of type %s as %s", id, set.Type, want)
			}
		}
	}
	return ""
}

func (p *player) endpointUpdate(e *dataplane.EndpointUpdate) string {
	if !p.complete {
		return "an endpoint before the batch that carries in-sync" // S97
	}
	if msg := checkEndpoint(e.Key, e.Endpoint); msg != "" {
		return msg
	}
	lists := [][]dataplane.TierPolicies{e.Endpoint.Ingress, e.Endpoint.Egress}
	if msg := p.checkRefs(e.Endpoint.Profiles, lists...); msg != "" {
		return msg
	}
	for k := range policiesOf(lists) {
		if pol := p.state.Policies[k]; pol.Untracked || pol.PreDNAT {
			return "policy " + k.String() + " is for host endpoints alone" // S40
		}
	}
	if old, ok := p.state.Endpoints[e.Key]; ok {
		p.refs.endpoint(old, -1)
	}
	p.refs.endpoint(e.Endpoint, 1)
	p.state.Endpoints[e.Key] = e.Endpoint
	return ""
}

func (p *player) endpointRemove(e *dataplane.EndpointRemove) string {
	return remove(p.state.Endpoints, e.Key, nil, func(old *dataplane.Endpoint) { p.refs.endpoint(old, -1) })
}

// checkSetID checks the form of a set's ID and that it fits the type.
func checkSetID(id dataplane.IPSetID, t dataplane.IPSetType) string {
	prefix := map[dataplane.IPSetType]string{dataplane.IPSetNets: "s:", dataplane.IPSetPorts: "p:"}[t]
	hash, ok := strings.CutPrefix(string(id), prefix)
	if !ok {
		hash, ok = strings.CutPrefix(string(id), "v:") // of a service: either type
	}
	if prefix == "" || !ok || hash == "" {
		return "the id does not fit the type " + t.String()
	}
	if strings.Trim(hash, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		return "a character that ids do not have"
	}
	return ""
}
