// SPDX-License-Identifier: Apache-2.0

package felix_test

import (
	"io"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/projectcalico/calico/felix/calc"
	"github.com/projectcalico/calico/felix/config"
	"github.com/projectcalico/calico/felix/proto"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/api"
	"github.com/projectcalico/calico/libcalico-go/lib/backend/model"
)

// TestMain silences Felix's logger, which is global.
func TestMain(m *testing.M) {
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.PanicLevel)
	os.Exit(m.Run())
}

// graph is Felix's calculation graph, with a sequencer behind it.
type graph struct {
	calc      *calc.CalcGraph
	sequencer *calc.EventSequencer
	// flushed has the counts of the messages since the last reset.
	flushed tally
}

func newGraph() *graph {
	conf := config.New()
	conf.FelixHostname = node
	g := &graph{sequencer: calc.NewEventSequencer(conf)}
	g.sequencer.Callback = g.flushed.count
	g.calc = calc.NewCalculationGraph(g.sequencer, conf, func() {})
	return g
}

// apply gives updates to the graph one by one, as Felix's process does.
func (g *graph) apply(updates []api.Update) {
	for i := range updates {
		g.calc.OnUpdates(updates[i : i+1])
	}
}

// inSync ends the load, as the datastore does: it is ready, and everything was sent.
func (g *graph) inSync() {
	g.apply([]api.Update{update(model.ReadyFlagKey{}, true)})
	g.calc.OnStatusUpdated(api.InSync)
}

func (g *graph) flush() {
	g.calc.Flush()
	g.sequencer.Flush()
}

// flushes flushes the graph, and returns the counts of the messages.
func (g *graph) flushes() tally {
	g.flushed = tally{}
	g.flush()
	return g.flushed
}

// tally has counts of messages.
type tally struct {
	sets, policies, profiles, endpoints int
	// members counts those of new sets, added and removed those of changes.
	members, added, removed int
	// deltas counts the messages that change a set.
	deltas int
	// ingress and egress count the references of endpoints to policies.
	ingress, egress int
	namespaces      int
	// Counts of removals.
	removedSets, removedPolicies, removedProfiles, removedEndpoints int
	// start counts the messages with the configuration and the encapsulations, which follow the
	// load.
	start int
	// others counts all other messages.
	others int
}

func (t *tally) count(message any) {
	switch m := message.(type) {
	case *proto.IPSetUpdate:
		t.sets++
		t.members += len(m.Members)
	case *proto.IPSetDeltaUpdate:
		t.deltas++
		t.added += len(m.AddedMembers)
		t.removed += len(m.RemovedMembers)
	case *proto.ActivePolicyUpdate:
		t.policies++
	case *proto.ActiveProfileUpdate:
		t.profiles++
	case *proto.WorkloadEndpointUpdate:
		t.endpoints++
		for _, tier := range m.Endpoint.Tiers {
			t.ingress += len(tier.IngressPolicies)
			t.egress += len(tier.EgressPolicies)
		}
	case *proto.NamespaceUpdate:
		t.namespaces++
	case *proto.IPSetRemove:
		t.removedSets++
	case *proto.ActivePolicyRemove:
		t.removedPolicies++
	case *proto.ActiveProfileRemove:
		t.removedProfiles++
	case *proto.WorkloadEndpointRemove:
		t.removedEndpoints++
	case *proto.ConfigUpdate, *proto.Encapsulation:
		t.start++
	default:
		t.others++
	}
}

// state is what a dataplane has of the workloads after all messages. The values are the texts of
// the messages.
type state struct {
	t                             testing.TB
	sets                          map[string]map[string]bool
	policies, profiles, endpoints map[string]string
	// sources and destinations count the references to sets in all messages with policies.
	sources, destinations int
}

func newState(t testing.TB) *state {
	return &state{
		t: t, sets: map[string]map[string]bool{},
		policies: map[string]string{}, profiles: map[string]string{}, endpoints: map[string]string{},
	}
}

// apply applies a message. The test fails if the message refers to a set, or to a member of a set,
// that does not exist.
func (s *state) apply(message any) {
	switch m := message.(type) {
	case *proto.IPSetUpdate:
		s.sets[m.Id] = map[string]bool{}
		s.change(m.Id, m.Members, nil)
	case *proto.IPSetDeltaUpdate:
		s.change(m.Id, m.AddedMembers, m.RemovedMembers)
	case *proto.IPSetRemove:
		delete(s.sets, m.Id)
	case *proto.ActivePolicyUpdate:
		s.policies[m.Id.String()] = m.Policy.String()
		s.refer(slices.Concat(m.Policy.InboundRules, m.Policy.OutboundRules))
	case *proto.ActivePolicyRemove:
		delete(s.policies, m.Id.String())
	case *proto.ActiveProfileUpdate:
		s.profiles[m.Id.String()] = m.Profile.String()
	case *proto.ActiveProfileRemove:
		delete(s.profiles, m.Id.String())
	case *proto.WorkloadEndpointUpdate:
		s.endpoints[m.Id.String()] = m.Endpoint.String()
	case *proto.WorkloadEndpointRemove:
		delete(s.endpoints, m.Id.String())
	}
}

func (s *state) change(id string, added, removed []string) {
	set, ok := s.sets[id]
	if !ok {
		s.t.Fatalf("a change of the unknown set %s", id)
	}
	for _, member := range removed {
		if !set[member] {
			s.t.Fatalf("a removal of the unknown member %s", member)
		}
		delete(set, member)
	}
	for _, member := range added {
		if set[member] {
			s.t.Fatalf("a second addition of the member %s", member)
		}
		set[member] = true
	}
}

func (s *state) refer(rules []*proto.Rule) {
	for _, rule := range rules {
		s.sources += len(rule.SrcIpSetIds)
		s.destinations += len(rule.DstIpSetIds)
		for _, id := range slices.Concat(rule.SrcIpSetIds, rule.DstIpSetIds) {
			if s.sets[id] == nil {
				s.t.Fatalf("a reference to the unknown set %s", id)
			}
		}
	}
}

// clone returns a copy of what the dataplane has.
func (s *state) clone() *state {
	c := newState(s.t)
	c.policies, c.profiles, c.endpoints = maps.Clone(s.policies), maps.Clone(s.profiles), maps.Clone(s.endpoints)
	for id, set := range s.sets {
		c.sets[id] = maps.Clone(set)
	}
	return c
}

// equal compares what the dataplane has.
func (s *state) equal(o *state) bool {
	return maps.EqualFunc(s.sets, o.sets, maps.Equal[map[string]bool, map[string]bool]) &&
		maps.Equal(s.policies, o.policies) && maps.Equal(s.profiles, o.profiles) && maps.Equal(s.endpoints, o.endpoints)
}
