// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// servicePrefix is the prefix of names of services.
const servicePrefix = "svc/"

// Party is a sender or receiver: a workload endpoint or an address. Its slices must not be changed.
type Party struct {
	// Name is NAMESPACE/NAME of a workload endpoint, or the address.
	Name string
	// Endpoint is the key of the workload endpoint. It is zero if the party is an address. If a
	// workload endpoint has this address, the policy of this endpoint still applies to flows of the
	// party.
	Endpoint policy.Key
	// Addresses of both families.
	Addresses []netip.Addr
	// Ports are the named ports.
	Ports []policy.EndpointPort
	// Note explains why a pod is not a workload endpoint. It is set only if Find returns the party
	// for the name of such a pod (see Excluded).
	Note string
}

// Excluded is a pod that is not a workload endpoint, for example one in the network of its node.
type Excluded struct {
	// Name is NAMESPACE/NAME.
	Name string
	// Addresses are the addresses of the pod's packets. If there are none, Find returns an error
	// for the pod.
	Addresses []netip.Addr
	// Why is the reason that the pod is not a workload endpoint. It continues a sentence that
	// begins with the pod's name, as in "has finished".
	Why string
}

// Index finds the parties of a world by name, pattern or address.
type Index struct {
	endpoints []Party // sorted by name
	owners    map[netip.Addr]int
	services  map[string][]netip.Addr
	excluded  []Excluded
}

// NewIndex returns an index of the workload endpoints and services of a world. The argument
// excluded has the pods that are not workload endpoints, such as pods in the network of their node.
// Find finds these pods by name, too.
func NewIndex(world verdict.World, excluded ...Excluded) *Index {
	x := &Index{owners: map[netip.Addr]int{}, services: map[string][]netip.Addr{}, excluded: excluded}
	for _, resource := range world {
		switch r := resource.(type) {
		case *policy.WorkloadEndpoint:
			x.endpoints = append(x.endpoints, Party{
				Name: r.Namespace + "/" + r.Name, Endpoint: r.Key(), Addresses: r.Addresses, Ports: r.Ports,
			})
		case *policy.ServiceBackends:
			name := r.Namespace + "/" + r.Service
			x.services[name] = append(x.services[name], r.Addresses...)
		}
	}
	slices.SortFunc(x.endpoints, func(p, q Party) int { return strings.Compare(p.Name, q.Name) })
	for i, endpoint := range slices.Backward(x.endpoints) {
		for _, addr := range endpoint.Addresses {
			x.owners[addr] = i // the first, as in package verdict
		}
	}
	for _, addrs := range x.services {
		slices.SortFunc(addrs, netip.Addr.Compare)
	}
	return x
}

// Endpoints returns the workload endpoints, sorted by name.
func (x *Index) Endpoints() []Party { return slices.Clone(x.endpoints) }

// Excluded returns the pods that are not workload endpoints, in the order in which they were passed
// to NewIndex.
func (x *Index) Excluded() []Excluded { return slices.Clone(x.excluded) }

// Find returns the parties (senders or receivers) that a text names. The section Names of the
// package's documentation has the syntax of the text. A pattern matches only workload endpoints
// with an address. If the world has no such party, Find returns an error.
func (x *Index) Find(text string) ([]Party, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" {
			return nil, fmt.Errorf("%q: want an address without a zone", text)
		}
		return []Party{x.at(addr)}, nil
	}
	if name, ok := strings.CutPrefix(text, servicePrefix); ok && strings.Contains(name, "/") {
		return x.service(name)
	}
	if strings.Contains(text, "*") {
		return x.match(text)
	}
	for _, p := range x.endpoints {
		if p.Name == text {
			if len(p.Addresses) == 0 {
				return nil, fmt.Errorf("%s has no address", text)
			}
			return []Party{p}, nil
		}
	}
	for _, o := range x.excluded {
		if o.Name != text {
			continue
		}
		if len(o.Addresses) == 0 {
			return nil, fmt.Errorf("%s %s", o.Name, o.Why)
		}
		return []Party{{Name: o.Name, Addresses: o.Addresses, Note: o.Name + " " + o.Why}}, nil
	}
	return nil, fmt.Errorf("%q is neither an address nor a known pod (NAMESPACE/NAME)", text)
}

// at returns the party with an address, with the named ports of the endpoint that has it.
func (x *Index) at(addr netip.Addr) Party {
	addr = addr.Unmap()
	p := Party{Name: addr.String(), Addresses: []netip.Addr{addr}}
	if i, ok := x.owners[addr]; ok {
		p.Ports = x.endpoints[i].Ports
	}
	return p
}

func (x *Index) match(pattern string) ([]Party, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	var found []Party
	for _, p := range x.endpoints {
		if ok, _ := path.Match(pattern, p.Name); ok && len(p.Addresses) > 0 {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no known pod matches %q", pattern)
	}
	return found, nil
}

// service returns the backends of a service: workload endpoints or, without one, addresses.
func (x *Index) service(name string) ([]Party, error) {
	addrs, ok := x.services[name]
	if !ok {
		return nil, fmt.Errorf("%q: no known EndpointSlice belongs to a service %s", servicePrefix+name, name)
	}
	var found []Party
	for _, addr := range slices.Compact(slices.Clone(addrs)) {
		p := x.at(addr)
		if i, owned := x.owners[addr]; owned {
			p.Name, p.Endpoint = x.endpoints[i].Name, x.endpoints[i].Endpoint
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the service %s has no backends", name)
	}
	return found, nil
}

// Same reports whether two parties are the same endpoint or share an address. Policy does not apply
// between them.
func Same(a, b Party) bool {
	if a.Endpoint != (policy.Key{}) && b.Endpoint != (policy.Key{}) {
		return a.Endpoint == b.Endpoint
	}
	return slices.ContainsFunc(a.Addresses, func(addr netip.Addr) bool { return slices.Contains(b.Addresses, addr) })
}
