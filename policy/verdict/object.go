// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/selector"
)

// newObject returns an object with labels from several layers. The first layer with a label takes
// precedence. The namespace label is always the namespace.
func newObject(key policy.Key, layers ...map[string]string) *object {
	labels := selector.Map{}
	for _, layer := range slices.Backward(layers) {
		maps.Copy(labels, layer)
	}
	delete(labels, policy.LabelNamespace)
	if key.Namespace != "" {
		labels[policy.LabelNamespace] = key.Namespace
	}
	return &object{key: key, name: key.String(), labels: labels}
}

// newEndpoint returns an object that inherits the labels of its profiles, and adds it to the
// objects of its addresses.
func (e *Evaluator) newEndpoint(
	key policy.Key, labels map[string]string, profiles []string, addrs []netip.Addr, ports []policy.EndpointPort,
) *object {
	layers := []map[string]string{labels}
	for _, name := range profiles {
		if p := e.profiles[name]; p != nil {
			layers = append(layers, p.labels)
		}
	}
	o := newObject(key, layers...)
	o.ports, o.profiles = ports, profiles
	for _, addr := range addrs {
		if !slices.Contains(e.addresses[addr], o) {
			e.addresses[addr] = append(e.addresses[addr], o)
		}
	}
	return o
}

func (e *Evaluator) addWorkload(r *policy.WorkloadEndpoint) {
	o := e.newEndpoint(r.Key(), r.Labels, r.Profiles, r.Addresses, r.Ports)
	o.workload = r
	e.workloads[o.key] = o
	n := e.node(r.Node)
	if n.workloads[r.Interface] == nil { // otherwise, the interface belongs to a workload with a smaller key
		n.workloads[r.Interface] = o
	}
}

// objectsAt returns the endpoints with an address and the network sets that contain it.
func (e *Evaluator) objectsAt(addr netip.Addr) []*object {
	objects := slices.Clone(e.addresses[addr])
	for _, set := range e.sets {
		if contains(set.nets, addr) {
			objects = append(objects, set)
		}
	}
	return objects
}

// workload returns the workload endpoint of one side of a flow: the one with the name or, without a
// name, the first with the address. If node is not empty, it must be on that node. workload returns
// nil if there is none.
func (e *Evaluator) workload(name policy.Key, addr netip.Addr, node string) *object {
	if name != (policy.Key{}) {
		return e.workloads[name]
	}
	for _, o := range e.addresses[addr] {
		if o.workload != nil && (node == "" || o.workload.Node == node) {
			return o
		}
	}
	return nil
}

// contains reports whether one of the prefixes contains the address.
func contains(nets policy.Nets, addr netip.Addr) bool {
	return slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(addr) })
}
