// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// backend is the name of this package in errors.
const backend = "routes"

// failure has the faults of one endpoint or node. The fields op and detail belong to the first of
// errs. The field down means that there is only one reason: the endpoint's interface does not exist
// or is down.
type failure struct {
	down   bool
	op     string
	detail string
	errs   []error
}

// report collects faults by endpoint or node.
type report map[policy.Key]*failure

// add adds a fault of an endpoint or node. A zero key means that the fault belongs to neither. down
// means that the only reason is the endpoint's interface.
func (r report) add(key policy.Key, op, detail string, err error, down bool) {
	f := r[key]
	if f == nil {
		f = &failure{op: op, detail: detail, down: true}
		r[key] = f
	}
	f.down = f.down && down
	// the fault may be the same for each address
	if !slices.ContainsFunc(f.errs, func(e error) bool { return e.Error() == err.Error() }) {
		f.errs = append(f.errs, err)
	}
}

// err returns a join of all failures in order of their keys, or nil.
func (r report) err() error {
	var errs []error
	for _, key := range slices.SortedFunc(maps.Keys(r), policy.Key.Compare) {
		f := r[key]
		errs = append(errs, &dataplane.ApplyError{
			Backend: backend, Op: f.op, Object: key, Detail: f.detail, Err: errors.Join(f.errs...), Down: f.down,
		})
	}
	return errors.Join(errs...)
}

// report turns the errors of the Keeper into errors of endpoints and nodes, and adds the faults
// that the mapper found.
func (m *mapper) report(faults []*ObjectError) error {
	r := report{}
	for key := range m.bad {
		r.add(key, "use endpoint", "", m.endpoints[key].err, false)
	}
	for _, e := range faults {
		cause := e.Err
		if addr, ok := addressOf(e.Object); ok && e.Op != "find interface" {
			cause = fmt.Errorf("%s: %w", addr, cause)
		}
		for _, key := range m.owners(e.Object) {
			ep := m.endpoints[key]
			r.add(key, e.Op, e.Detail, cause, ep != nil && ep.iface != "" && ep.iface == e.absent)
		}
	}
	for _, prefix := range slices.SortedFunc(maps.Keys(m.contested), dataplane.ComparePrefixes) {
		keys := m.claims[prefix]
		for _, loser := range keys[1:] {
			r.add(loser, "add route", "", fmt.Errorf("%w: %s of %s", ErrContested, prefix.Addr(), keys[0]), false)
		}
	}
	for _, dst := range slices.SortedFunc(maps.Keys(m.network.faults), dataplane.ComparePrefixes) {
		err := fmt.Errorf("%s: %w", dst, m.network.faults[dst])
		r.add(nodeKey(m.network.routes[dst].Node), "add route", "", err, false)
	}
	for _, k := range slices.SortedFunc(maps.Keys(m.network.badTunnels), dataplane.TunnelKey.Compare) {
		r.add(nodeKey(k.Node), "use tunnel", "", m.network.badTunnels[k], false)
	}
	return r.err()
}

// objectErrors splits the error of a Keeper. general means that the error is not about single
// objects.
func objectErrors(err error) (faults []*ObjectError, general bool) {
	if err == nil {
		return nil, false
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, true
	}
	for _, e := range joined.Unwrap() {
		fault, ok := e.(*ObjectError)
		if !ok {
			return nil, true
		}
		faults = append(faults, fault)
	}
	return faults, false
}

// addressOf returns the address or prefix of an object, for errors.
func addressOf(o Object) (string, bool) {
	switch o := o.(type) {
	case Route:
		if o.Dst.IsSingleIP() {
			return o.Dst.Addr().String(), true
		}
		return o.Dst.String(), true
	case Neighbour:
		return o.Addr.String(), true
	}
	return "", false
}

// owners returns the endpoints or nodes that an object belongs to, or a zero key if there are none.
func (m *mapper) owners(o Object) []policy.Key {
	switch o := o.(type) {
	case Route:
		if keys, ok := m.addressOwner(o.Dst); ok {
			return keys
		}
		if r := m.network.routes[o.Dst]; r != nil {
			return []policy.Key{nodeKey(r.Node)}
		}
		if o.Metric == gatewayMetric {
			return m.endpointsWhere(func(ep *endpoint) bool { return ep.iface != "" })
		}
	case Neighbour:
		if !slices.Contains(m.cfg.devices(), o.Interface) {
			if keys, ok := m.addressOwner(hostPrefix(o.Addr)); ok {
				return keys
			}
		}
		return m.nodesWhere(func(t *dataplane.Tunnel) bool { return t.Address == o.Addr })
	case FDB:
		return m.nodesWhere(func(t *dataplane.Tunnel) bool { return t.MAC == o.MAC.String() })
	case device:
		name := o.name()
		return m.nodesWhere(func(t *dataplane.Tunnel) bool { return t.Local && m.cfg.device(t.Key()) == name })
	case Proxy:
		return m.endpointsWhere(func(ep *endpoint) bool { return ep.iface == o.Interface })
	case Setting:
		keys := m.endpointsWhere(func(ep *endpoint) bool {
			return slices.ContainsFunc(m.cfg.settings(ep), func(s Setting) bool { return s.Path == o.Path })
		})
		if keys[0] != (policy.Key{}) {
			return keys
		}
		return m.nodesWhere(func(t *dataplane.Tunnel) bool {
			return t.Local && m.cfg.device(t.Key()) == o.Interface
		})
	}
	return []policy.Key{{}}
}

func (m *mapper) addressOwner(prefix netip.Prefix) ([]policy.Key, bool) {
	if p, ok := m.assigned[prefix]; ok {
		return []policy.Key{p.key}, true
	}
	if key, ok := m.released[prefix]; ok {
		return []policy.Key{key}, true
	}
	return nil, false
}

func (m *mapper) endpointsWhere(concerns func(*endpoint) bool) (keys []policy.Key) {
	for key, ep := range m.endpoints {
		if concerns(ep) {
			keys = append(keys, key)
		}
	}
	return orZeroKey(keys)
}

func (m *mapper) nodesWhere(concerns func(*dataplane.Tunnel) bool) (keys []policy.Key) {
	for k, t := range m.network.tunnels {
		if concerns(t) {
			keys = append(keys, nodeKey(k.Node))
		}
	}
	return orZeroKey(keys)
}

func orZeroKey(keys []policy.Key) []policy.Key {
	if len(keys) == 0 {
		return []policy.Key{{}}
	}
	slices.SortFunc(keys, policy.Key.Compare)
	return slices.Compact(keys)
}

// forgetReleased drops the released addresses whose objects are removed.
func (m *mapper) forgetReleased(faults []*ObjectError) {
	failed := map[netip.Prefix]bool{}
	for _, e := range faults {
		switch o := e.Object.(type) {
		case Route:
			failed[o.Dst] = true
		case Neighbour:
			failed[hostPrefix(o.Addr)] = true
		}
	}
	for prefix := range m.released {
		if !failed[prefix] {
			delete(m.released, prefix)
		}
	}
}
