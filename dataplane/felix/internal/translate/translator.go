// SPDX-License-Identifier: Apache-2.0

package translate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/felix/felixpb"
	"github.com/wayleave/wayleave/policy"
)

// Dialect is a version of the protocol.
type Dialect int

// The dialects.
const (
	// Tiers is the dialect in which tier and name identify a policy.
	Tiers Dialect = iota
	// Kinds is the dialect in which kind, namespace and name identify a policy. A node is sent as
	// HostMetadataUpdate.
	Kinds
	// KindsV4V6 is like Kinds, but a node is sent as HostMetadataV4V6Update.
	KindsV4V6
)

// Send sends a message. The Translator does not change the message afterwards.
type Send func(*felixpb.ToDataplane)

// Translator keeps the desired state, and translates it and its changes.
type Translator struct {
	dialect Dialect
	inSync  bool
	sets    map[dataplane.IPSetID]*set
	policy  policies
	network network
	faults  map[policy.Key]error
	// stale has the identities of policies that are to be removed from the driver, because the
	// policies have another identity now, or have become staged. Endpoints that a batch changes may
	// have referred to these identities. So the identities are removed after the changes of
	// endpoints.
	stale []*felixpb.PolicyID
	// denyProfile is set once DenyProfile has been sent to the driver. It stays there even if no
	// endpoint uses it.
	denyProfile bool
	// send is the argument of the current call of Apply or Snapshot.
	send Send
}

// policies has the policies and profiles, and the endpoints that refer to them.
type policies struct {
	policies  map[policy.Key]*dataplane.Policy
	profiles  map[string]*dataplane.Profile
	endpoints map[policy.Key]*dataplane.Endpoint
	hosts     map[policy.Key]*dataplane.HostEndpoint
}

// network has the objects other than sets, policies, profiles and endpoints, and translates them.
type network struct {
	dialect Dialect
	// send is Translator.send.
	send       Send
	tunnels    map[dataplane.TunnelKey]*dataplane.Tunnel
	routes     map[netip.Prefix]*dataplane.Route
	nodes      map[string]*dataplane.Node
	pools      map[string]*dataplane.Pool
	namespaces map[string]*dataplane.Namespace
	accounts   map[dataplane.ServiceAccountKey]*dataplane.ServiceAccount
}

// New returns a Translator without objects.
func New(dialect Dialect) *Translator {
	return &Translator{
		dialect: dialect,
		sets:    map[dataplane.IPSetID]*set{},
		policy: policies{
			policies: map[policy.Key]*dataplane.Policy{}, profiles: map[string]*dataplane.Profile{},
			endpoints: map[policy.Key]*dataplane.Endpoint{}, hosts: map[policy.Key]*dataplane.HostEndpoint{},
		},
		network: network{
			dialect: dialect, tunnels: map[dataplane.TunnelKey]*dataplane.Tunnel{},
			routes: map[netip.Prefix]*dataplane.Route{},
			nodes:  map[string]*dataplane.Node{}, pools: map[string]*dataplane.Pool{},
			namespaces: map[string]*dataplane.Namespace{},
			accounts:   map[dataplane.ServiceAccountKey]*dataplane.ServiceAccount{},
		},
		faults: map[policy.Key]error{},
	}
}

// InSync reports whether the state is complete.
func (t *Translator) InSync() bool { return t.inSync }

// Apply records the events of a batch, and sends them in order. If send is nil, it only records
// them. It does not send an event that changes nothing. It never sends InSync: only Snapshot does.
func (t *Translator) Apply(b dataplane.Batch, send Send) {
	t.send, t.network.send = send, send
	tunnels := false
	for i, e := range b.Events {
		if !beforeRemovals(e) {
			t.removeStale()
		}
		if _, ok := e.(*dataplane.TunnelRemove); ok && !tunnels {
			tunnels = true
			t.network.removeUnreachable(b.Events[i:])
		}
		if !t.applySet(e) && !t.applyPolicy(e) {
			t.network.apply(e)
		}
	}
	t.removeStale()
	t.send, t.network.send = nil, nil
}

// beforeRemovals reports whether a batch has the event before the events that remove policies and
// sets.
func beforeRemovals(e dataplane.Event) bool {
	switch e.(type) {
	case *dataplane.IPSetUpdate, *dataplane.IPSetDelta, *dataplane.PolicyUpdate, *dataplane.ProfileUpdate,
		*dataplane.EndpointUpdate, *dataplane.HostEndpointUpdate, *dataplane.EndpointRemove,
		*dataplane.HostEndpointRemove:
		return true
	}
	return false
}

// Snapshot sends all objects, in the order that they have in a batch. Then it sends InSync.
func (t *Translator) Snapshot(send Send) {
	t.send, t.network.send, t.stale, t.denyProfile = send, send, nil, false
	clear(t.faults)
	for _, id := range slices.Sorted(maps.Keys(t.sets)) {
		t.sendSet(id, t.sets[id])
	}
	each(t.policy.policies, policy.Key.Compare, t.sendPolicy)
	each(t.policy.profiles, strings.Compare, t.sendProfile)
	each(t.policy.endpoints, policy.Key.Compare, t.sendEndpoint)
	each(t.policy.hosts, policy.Key.Compare, t.sendHost)
	t.network.snapshot()
	send(&felixpb.ToDataplane{Payload: &felixpb.ToDataplane_InSync{InSync: &felixpb.InSync{}}})
	t.send, t.network.send = nil, nil
}

// each calls do for each object, sorted by key.
func each[K comparable, V any](m map[K]V, compare func(a, b K) int, do func(K, V)) {
	for _, k := range slices.SortedFunc(maps.Keys(m), compare) {
		do(k, m[k])
	}
}

// Faults returns an error for each object that the messages cannot express, sorted by key.
func (t *Translator) Faults() (errs []error) {
	each(t.faults, policy.Key.Compare, func(key policy.Key, err error) {
		errs = append(errs, &dataplane.ApplyError{Backend: "felix", Op: "translate", Object: key, Err: err})
	})
	return errs
}

// fault records the parts of an object that the messages cannot express. An empty list clears the
// fault.
func (t *Translator) fault(key policy.Key, problems []error) {
	if err := errors.Join(problems...); err != nil {
		t.faults[key] = err
	} else {
		delete(t.faults, key)
	}
}

// applyPolicy applies an event of a policy, profile or endpoint, or InSync. It returns false for
// other events.
func (t *Translator) applyPolicy(e dataplane.Event) bool {
	switch e := e.(type) {
	case *dataplane.PolicyUpdate:
		t.updatePolicy(e.Key, e.Policy)
	case *dataplane.PolicyRemove:
		t.removePolicy(e.Key)
	case *dataplane.ProfileUpdate:
		update(t.send != nil, t.policy.profiles, e.Name, e.Profile, t.sendProfile)
	case *dataplane.ProfileRemove:
		remove(t, t.policy.profiles, e.Name, profileKey(e.Name), t.removeProfile)
	case *dataplane.EndpointUpdate:
		update(t.send != nil, t.policy.endpoints, e.Key, e.Endpoint, t.sendEndpoint)
	case *dataplane.EndpointRemove:
		remove(t, t.policy.endpoints, e.Key, e.Key, t.removeEndpoint)
	case *dataplane.HostEndpointUpdate:
		update(t.send != nil, t.policy.hosts, e.Key, e.HostEndpoint, t.sendHost)
	case *dataplane.HostEndpointRemove:
		remove(t, t.policy.hosts, e.Key, e.Key, t.removeHost)
	case *dataplane.InSync:
		t.inSync = true
	default:
		return false
	}
	return true
}

// update adds or replaces an object. If a driver runs and the object differs from the old one, it
// calls send.
func update[K comparable, V interface{ Equal(o V) bool }](driver bool, m map[K]V, k K, v V, send func(K, V)) {
	old, ok := m[k]
	m[k] = v
	if driver && (!ok || !old.Equal(v)) {
		send(k, v)
	}
}

// remove removes an object and its fault. If a driver runs and the object existed, it calls send.
func remove[K comparable, V any](t *Translator, m map[K]V, k K, key policy.Key, send func(K)) {
	_, ok := m[k]
	delete(m, k)
	delete(t.faults, key)
	if ok && t.send != nil {
		send(k)
	}
}

// removeStale sends the removal of the stale identities of policies.
func (t *Translator) removeStale() {
	for _, id := range t.stale {
		t.sendPolicyRemove(id)
	}
	t.stale = t.stale[:0]
}

// text returns the string of each entry of a list.
func text[T fmt.Stringer](list []T) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

// join returns "namespace/name", or only the name of an object without a namespace. Names contain
// no slash.
func join(k policy.Key) string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// split is the reverse of join.
func split(kind policy.Kind, id string) policy.Key {
	namespace, name, ok := strings.Cut(id, "/")
	if !ok {
		namespace, name = "", id
	}
	return policy.Key{Kind: kind, Namespace: namespace, Name: cmp.Or(name, id)}
}
