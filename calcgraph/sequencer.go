// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// Sequencer collects the output of the other nodes of the graph until the next flush. Then it
// leaves out changes that cancel each other, and sorts the rest in the order that dataplane.Batch
// documents.
//
// A Sequencer stores the events that it has emitted. So it ignores an update that changes nothing.
// There is one exception: a Sequencer does not store the members of sets. So callers must not add a
// member that is already in the set, or remove one that is not in the set.
//
// A Sequencer is not safe for concurrent use.
type Sequencer struct {
	sets      setStream
	policies  objects[policy.Key, dataplane.Policy]
	profiles  objects[string, dataplane.Profile]
	endpoints objects[policy.Key, dataplane.Endpoint]
	hosts     objects[policy.Key, dataplane.HostEndpoint]
	network   networkStream
	inSync    syncState
}

type syncState uint8

const (
	notInSync syncState = iota
	inSyncPending
	inSyncSent
)

var (
	_ MemberReceiver   = (*Sequencer)(nil)
	_ RulesReceiver    = (*Sequencer)(nil)
	_ EndpointReceiver = (*Sequencer)(nil)
)

// NewSequencer returns a Sequencer without objects.
func NewSequencer() *Sequencer {
	return &Sequencer{
		sets: newSetStream(),
		policies: newObjects(policy.Key.Compare, (*dataplane.Policy).Equal,
			func(k policy.Key, p *dataplane.Policy) dataplane.Event {
				return &dataplane.PolicyUpdate{Key: k, Policy: p}
			},
			func(k policy.Key) dataplane.Event { return &dataplane.PolicyRemove{Key: k} }),
		profiles: newObjects(strings.Compare, (*dataplane.Profile).Equal,
			func(name string, p *dataplane.Profile) dataplane.Event {
				return &dataplane.ProfileUpdate{Name: name, Profile: p}
			},
			func(name string) dataplane.Event { return &dataplane.ProfileRemove{Name: name} }),
		endpoints: newObjects(policy.Key.Compare, (*dataplane.Endpoint).Equal,
			func(k policy.Key, e *dataplane.Endpoint) dataplane.Event {
				return &dataplane.EndpointUpdate{Key: k, Endpoint: e}
			},
			func(k policy.Key) dataplane.Event { return &dataplane.EndpointRemove{Key: k} }),
		hosts: newObjects(policy.Key.Compare, (*dataplane.HostEndpoint).Equal,
			func(k policy.Key, h *dataplane.HostEndpoint) dataplane.Event {
				return &dataplane.HostEndpointUpdate{Key: k, HostEndpoint: h}
			},
			func(k policy.Key) dataplane.Event { return &dataplane.HostEndpointRemove{Key: k} }),
		network: newNetworkStream(),
	}
}

// IPSetAdded adds an empty set.
func (s *Sequencer) IPSetAdded(id dataplane.IPSetID, typ dataplane.IPSetType) { s.sets.start(id, typ) }

// MemberChanged adds the member m to a set if present is true, and otherwise removes m from the
// set. The set must exist.
func (s *Sequencer) MemberChanged(id dataplane.IPSetID, m dataplane.Member, present bool) {
	s.sets.change(id, m, present)
}

// IPSetRemoved removes a set. The set must be empty.
func (s *Sequencer) IPSetRemoved(id dataplane.IPSetID) { s.sets.end(id) }

// RulesUpdate adds or replaces a policy or profile.
func (s *Sequencer) RulesUpdate(owner policy.Key, r Rules) {
	if owner.Kind == policy.KindProfile {
		s.profiles.set(owner.Name, &dataplane.Profile{Ingress: r.Ingress, Egress: r.Egress})
		return
	}
	s.policies.set(owner, &dataplane.Policy{
		Tier: r.Tier, Staged: r.Staged, Forward: r.Forward, Untracked: r.Untracked, PreDNAT: r.PreDNAT,
		Ingress: r.Ingress, Egress: r.Egress,
	})
}

// RulesRemove removes a policy or profile.
func (s *Sequencer) RulesRemove(owner policy.Key) {
	if owner.Kind == policy.KindProfile {
		s.profiles.set(owner.Name, nil)
		return
	}
	s.policies.set(owner, nil)
}

// EndpointUpdate adds or replaces a workload endpoint.
func (s *Sequencer) EndpointUpdate(key policy.Key, e *dataplane.Endpoint) { s.endpoints.set(key, e) }

// EndpointRemove removes a workload endpoint.
func (s *Sequencer) EndpointRemove(key policy.Key) { s.endpoints.set(key, nil) }

// HostEndpointUpdate adds or replaces a host endpoint.
func (s *Sequencer) HostEndpointUpdate(key policy.Key, h *dataplane.HostEndpoint) {
	s.hosts.set(key, h)
}

// HostEndpointRemove removes a host endpoint.
func (s *Sequencer) HostEndpointRemove(key policy.Key) { s.hosts.set(key, nil) }

// InSync adds the InSync event to the next batch. Further calls have no effect.
func (s *Sequencer) InSync() {
	if s.inSync == notInSync {
		s.inSync = inSyncPending
	}
}

// Flush returns the changes since the last flush. If there are none, the batch is empty, and Flush
// takes constant time.
func (s *Sequencer) Flush() dataplane.Batch {
	setUpdates, setDeltas, setRemoves := s.sets.flush()
	events := append(setUpdates, setDeltas...)

	events = s.policies.appendUpdates(events)
	events = s.profiles.appendUpdates(events)
	events = s.endpoints.appendUpdates(events)
	events = s.hosts.appendUpdates(events)

	events = s.endpoints.appendRemoves(events)
	events = s.hosts.appendRemoves(events)
	events = s.profiles.appendRemoves(events)
	events = s.policies.appendRemoves(events)

	events = append(events, setRemoves...)
	events = s.network.appendChanges(events)
	if s.inSync == inSyncPending {
		s.inSync = inSyncSent
		events = append(events, &dataplane.InSync{})
	}
	return dataplane.Batch{Events: events}
}

// Snapshot returns one batch that creates the state after the last flush. If the event InSync was
// emitted, the batch has it, too.
//
// A Sequencer does not store the members of sets. So the caller passes a function that returns the
// present members of a set, and Snapshot calls it for each set. The members may have changed since
// the last flush: Snapshot knows these changes, and undoes them in the batch.
func (s *Sequencer) Snapshot(members func(id dataplane.IPSetID) []dataplane.Member) dataplane.Batch {
	events := s.sets.snapshot(members)
	events = s.policies.appendAll(events)
	events = s.profiles.appendAll(events)
	events = s.endpoints.appendAll(events)
	events = s.hosts.appendAll(events)
	events = s.network.appendAll(events)
	if s.inSync == inSyncSent {
		events = append(events, &dataplane.InSync{})
	}
	return dataplane.Batch{Events: events}
}
