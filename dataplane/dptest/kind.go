// SPDX-License-Identifier: Apache-2.0

package dptest

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// kind is a kind of objects in a State.
type kind interface {
	// cloneMap replaces the map of the kind by a copy.
	cloneMap(s *State)
	equal(a, b *State) bool
	// changes returns the events that lead from one state to the other, in no order.
	changes(from, to *State) []dataplane.Event
	// play adds, replaces or removes the object p.about. It returns the reason why the event is
	// wrong, or "".
	play(p *player, e dataplane.Event) string
}

// kinds returns all kinds of objects, by the names that their events begin with.
func kinds() map[string]kind {
	return map[string]kind{
		"IPSet": objects[dataplane.IPSetID, Set]{
			of:     func(s *State) *map[dataplane.IPSetID]Set { return &s.Sets },
			update: setChange, remove: removal[dataplane.IPSetRemove, dataplane.IPSetID],
		},
		"Policy": kindOf[dataplane.PolicyUpdate, dataplane.PolicyRemove](
			func(s *State) *map[policy.Key]*dataplane.Policy { return &s.Policies }, checkPolicy),
		"Profile": kindOf[dataplane.ProfileUpdate, dataplane.ProfileRemove](
			func(s *State) *map[string]*dataplane.Profile { return &s.Profiles }, checkProfile),
		"Endpoint": kindOf[dataplane.EndpointUpdate, dataplane.EndpointRemove](
			func(s *State) *map[policy.Key]*dataplane.Endpoint { return &s.Endpoints }, checkEndpoint),
		"HostEndpoint": kindOf[dataplane.HostEndpointUpdate, dataplane.HostEndpointRemove](
			func(s *State) *map[policy.Key]*dataplane.HostEndpoint { return &s.HostEndpoints }, checkHostEndpoint),
		"Tunnel": kindOf[dataplane.TunnelUpdate, dataplane.TunnelRemove](
			func(s *State) *map[dataplane.TunnelKey]*dataplane.Tunnel { return &s.Tunnels }, checkTunnel),
		"Route": kindOf[dataplane.RouteUpdate, dataplane.RouteRemove](
			func(s *State) *map[netip.Prefix]*dataplane.Route { return &s.Routes }, checkRoute),
		"Node": kindOf[dataplane.NodeUpdate, dataplane.NodeRemove](
			func(s *State) *map[string]*dataplane.Node { return &s.Nodes }, checkNode),
		"Pool": kindOf[dataplane.PoolUpdate, dataplane.PoolRemove](
			func(s *State) *map[string]*dataplane.Pool { return &s.Pools }, checkPool),
		"Service": kindOf[dataplane.ServiceUpdate, dataplane.ServiceRemove](
			func(s *State) *map[policy.Key]*dataplane.Service { return &s.Services }, checkService),
		"Namespace": kindOf[dataplane.NamespaceUpdate, dataplane.NamespaceRemove](
			func(s *State) *map[string]*dataplane.Namespace { return &s.Namespaces }, checkNamespace),
		"ServiceAccount": kindOf[dataplane.ServiceAccountUpdate, dataplane.ServiceAccountRemove](
			func(s *State) *map[dataplane.ServiceAccountKey]*dataplane.ServiceAccount { return &s.ServiceAccounts },
			checkAccount),
	}
}

// object identifies an object: the name of its kind, as in "Policy", and its id.
type object struct {
	kind string
	id   any
}

// objectOf returns the identity of an event's object. ok is false if the event or its object is
// nil, or if another package defines the event's type.
//
// The first field of an event is the id of its object, or the object, whose first field is the id.
func objectOf(e dataplane.Event) (o object, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(e))
	if !v.IsValid() || v.Type().PkgPath() != reflect.TypeFor[dataplane.Event]().PkgPath() {
		return o, false
	}
	o.kind = v.Type().Name()
	for _, suffix := range []string{"Update", "Delta", "Remove"} {
		o.kind = strings.TrimSuffix(o.kind, suffix)
	}
	if v.NumField() == 0 {
		return o, true
	}
	switch id := v.Field(0); {
	case id.Kind() != reflect.Pointer:
		o.id = id.Interface()
	case id.IsNil():
		return o, false
	default:
		o.id = id.Elem().Field(0).Interface()
		if t, isTunnel := e.(*dataplane.TunnelUpdate); isTunnel {
			o.id = t.Tunnel.Key()
		}
	}
	return o, true
}

// objects is the kind of the objects of type V with ids of type K.
type objects[K comparable, V interface{ Equal(o V) bool }] struct {
	// of returns the map of the kind.
	of func(s *State) *map[K]V
	// update returns the event of an object that has changed, or is new if old is nil.
	update func(k K, old *V, v V) dataplane.Event
	remove func(k K) dataplane.Event
	// check returns what is wrong with an object taken by itself, or "".
	check func(k K, v V) string
}

// kindOf returns a kind whose events are of type U and R.
func kindOf[U, R any, K comparable, V interface{ Equal(o V) bool }](
	of func(s *State) *map[K]V, check func(k K, v V) string,
) kind {
	update := func(k K, _ *V, v V) dataplane.Event { return newEvent[U](k, v) }
	return objects[K, V]{of: of, check: check, update: update, remove: removal[R, K]}
}

func removal[R any, K comparable](k K) dataplane.Event { return newEvent[R](k) }

// newEvent returns an event with the values in the fields of their types.
func newEvent[E any](values ...any) dataplane.Event {
	e := new(E)
	fields := reflect.ValueOf(e).Elem()
	for i := range fields.NumField() {
		for _, v := range values {
			if fields.Field(i).Type() == reflect.TypeOf(v) {
				fields.Field(i).Set(reflect.ValueOf(v))
			}
		}
	}
	return any(e).(dataplane.Event)
}

func (o objects[K, V]) cloneMap(s *State) {
	m := o.of(s)
	if *m = maps.Clone(*m); *m == nil {
		*m = map[K]V{}
	}
}

func (o objects[K, V]) equal(a, b *State) bool { return maps.EqualFunc(*o.of(a), *o.of(b), V.Equal) }

func (o objects[K, V]) changes(from, to *State) (events []dataplane.Event) {
	before, after := *o.of(from), *o.of(to)
	for k, v := range after {
		if old, ok := before[k]; !ok {
			events = append(events, o.update(k, nil, v))
		} else if !old.Equal(v) {
			events = append(events, o.update(k, &old, v))
		}
	}
	for k := range before {
		if _, ok := after[k]; !ok {
			events = append(events, o.remove(k))
		}
	}
	return events
}

func (o objects[K, V]) play(p *player, e dataplane.Event) string {
	list, k := *o.of(p.state), p.about.id.(K)
	fields := reflect.ValueOf(e).Elem()
	for i := range fields.NumField() {
		if v, ok := fields.Field(i).Interface().(V); ok {
			return o.set(p, list, k, v)
		}
	}
	old, ok := list[k]
	if !ok {
		return "removes an object that does not exist"
	}
	// The check that no route uses a removed tunnel is at the end of the batch.
	if n := p.refs[p.about]; n != 0 && p.about.kind != "Tunnel" {
		return fmt.Sprintf("removed while %d others refer to it", n)
	}
	p.refs.add(old, -1)
	delete(list, k)
	return ""
}

// set adds or replaces an object if nothing is wrong with it.
func (o objects[K, V]) set(p *player, list map[K]V, k K, v V) string {
	if msg := o.check(k, v); msg != "" {
		return msg
	}
	if msg := p.state.checkReferents(v); msg != "" {
		return msg
	}
	if old, ok := list[k]; ok {
		p.refs.add(old, -1)
	}
	p.refs.add(v, 1)
	list[k] = v
	return ""
}

// setChange returns the event of an IP set that has other members, or is new if old is nil.
func setChange(id dataplane.IPSetID, old *Set, s Set) dataplane.Event {
	if old == nil {
		return &dataplane.IPSetUpdate{ID: id, Type: s.Type, Members: s.Members}
	}
	return &dataplane.IPSetDelta{
		ID: id, Added: without(s.Members, old.Members), Removed: without(old.Members, s.Members),
	}
}
