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

	memberIndexes map[dataplane.IPSetID]*memberIndex
	// reason is why there is no endpoint.
	reason string
}

// newState returns the state with the objects. The state before may be nil.
func newState(objects dptest.State, before *State) *State {
	s := &State{Objects: objects, memberIndexes: memberIndexes(objects, before)}
	for key := range objects.Endpoints {
		s.Key = key
	}
	return s
}

// Ingress returns the decision of the endpoint's policy about the first packet of a connection to it, and what decided.
// It ignores From and To of the packet, and the fields that are unknown: a program that accepts connections passes
// UnknownDSCP. It denies a packet without two addresses of one family. It takes no account of connection tracking:
// judge each request by itself. The time that it takes hardly depends on the size of sets.
func (s *State) Ingress(p dptest.Packet, unknown Unknown) dptest.Decision {
	p.From, p.To = policy.Key{}, s.Key
	return s.judge(p, unknown).Ingress
}

// Egress is Ingress for a connection from the endpoint.
func (s *State) Egress(p dptest.Packet, unknown Unknown) dptest.Decision {
	p.From, p.To = s.Key, policy.Key{}
	return s.judge(p, unknown).Egress
}

// judge evaluates a packet. It denies both directions without the endpoint, whose key may not be known, and without an
// address of the packet: a rule that denies addresses does not match a packet that has none.
func (s *State) judge(p dptest.Packet, unknown Unknown) dptest.Verdict {
	deny := func(reason string) dptest.Verdict {
		d := dptest.Decision{Action: policy.Deny, By: reason}
		return dptest.Verdict{Egress: d, Ingress: d}
	}
	p.Src, p.Dst = p.Src.Unmap().WithZone(""), p.Dst.Unmap().WithZone("") // no prefix contains an address with a zone
	switch {
	case s.Objects.Endpoints[s.Key] == nil:
		return deny(cmp.Or(s.reason, "no endpoint"))
	case !p.Src.IsValid() || !p.Dst.IsValid():
		return deny("a packet without an address")
	}
	objects := s.relevant(p)
	if unknown != 0 {
		objects = unknown.resolve(objects, p)
	}
	return objects.Judge(p)
}
