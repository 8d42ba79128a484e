// SPDX-License-Identifier: Apache-2.0

package policysync

import (
	"cmp"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
)

// State is the policy of an endpoint at one moment. It is immutable, and may be read from any
// goroutine.
type State struct {
	// Key of the endpoint.
	Key policy.Key
	// Objects has only the endpoint, and the policies, profiles and sets that apply to it. If the
	// endpoint is missing, everything is denied.
	Objects dptest.State

	memberIndexes map[dataplane.IPSetID]*memberIndex
	// reason is why there is no endpoint.
	reason string
}

// newState returns the state with the objects. before is the previous state or nil.
func newState(objects dptest.State, before *State) *State {
	s := &State{Objects: objects, memberIndexes: memberIndexes(objects, before)}
	for key := range objects.Endpoints {
		s.Key = key
	}
	return s
}

// Ingress returns the decision of the endpoint's policy about a packet to the endpoint, as if the
// packet were the first one of a connection. Ingress does not track connections, so call it for
// each request. The decision names the rule or default that made it. Ingress ignores the fields
// From and To of the packet, and all fields that the parameter unknown contains. A program that
// accepts connections never knows the DSCP, so it must pass UnknownDSCP. Ingress denies a packet
// that does not have two addresses of one family.
//
// The duration of Ingress hardly depends on the size of the sets.
func (s *State) Ingress(p dptest.Packet, unknown Unknown) dptest.Decision {
	p.From, p.To = policy.Key{}, s.Key
	return s.judge(p, unknown).Ingress
}

// Egress does the same as Ingress for a connection from the endpoint.
func (s *State) Egress(p dptest.Packet, unknown Unknown) dptest.Decision {
	p.From, p.To = s.Key, policy.Key{}
	return s.judge(p, unknown).Egress
}

// judge evaluates a packet. If there is no endpoint, it denies both directions; the key may then be
// unknown. If the packet lacks an address, it denies both directions, too, because a rule that
// denies addresses would not match such a packet.
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
