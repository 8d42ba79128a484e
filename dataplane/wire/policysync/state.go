// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"cmp"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// State is the policy of an endpoint at one moment. It may be read from any goroutine; nobody changes it.
type State struct {
	// Key of the endpoint.
	Key policy.Key
	// Objects has the endpoint, and the policies, profiles and sets that apply to it, and nothing else. Without the
	// endpoint, everything is denied.
	Objects dptest.State

	lookups map[dataplane.IPSetID]*lookup
	// reason is why there is no endpoint.
	reason string
}

// newState returns the state with the objects. The state before may be nil.
func newState(objects dptest.State, before *State) *State {
	s := &State{Objects: objects, lookups: lookups(objects, before)}
	for key := range objects.Endpoints {
		s.Key = key
	}
	return s
}

// Ingress returns the decision of the endpoint's policy about the first packet of a connection to it, and what decided.
// It ignores From and To of the packet, and the fields that are unknown: a program that accepts connections passes
// UnknownDSCP. It takes no account of connection tracking: judge each request by itself. The time that it takes hardly
// depends on the size of sets.
func (s *State) Ingress(p dptest.Packet, unknown Unknown) dptest.Decision {
	p.From, p.To = policy.Key{}, s.Key
	return s.judge(p, unknown).Ingress
}

// Egress is Ingress for a connection from the endpoint.
func (s *State) Egress(p dptest.Packet, unknown Unknown) dptest.Decision {
	p.From, p.To = s.Key, policy.Key{}
	return s.judge(p, unknown).Egress
}

// judge evaluates a packet. Without the endpoint, whose key may not be known, it denies both directions.
func (s *State) judge(p dptest.Packet, unknown Unknown) dptest.Verdict {
	if s.Objects.Endpoints[s.Key] == nil {
		gone := dptest.Decision{Action: policy.Deny, By: cmp.Or(s.reason, "no endpoint")}
		return dptest.Verdict{Egress: gone, Ingress: gone}
	}
	objects := s.relevant(p)
	if unknown != 0 {
		objects = unknown.resolve(objects, p)
	}
	return objects.Judge(p)
}
