// SPDX-License-Identifier: Apache-2.0

package question

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// servicePrefix tells services from pods.
const servicePrefix = "svc/"

// Party is someone who sends or is reached. It is a plain value; the slices belong to the Book.
type Party struct {
	// Name for people: NAMESPACE/NAME of a pod, otherwise the address.
	Name string
	// Endpoint of a pod. Zero for an address, and then whoever holds the address counts.
	Endpoint policy.Key
	// Addresses of both families.
	Addresses []netip.Addr
	// Ports that have names.
	Ports []policy.EndpointPort
	// Note is what one should know about a party that policy does not see as a pod. Usually empty.
	Note string
}

// Outsider is a pod that no policy applies to, as one with the network of its host.
type Outsider struct {
	// Name is NAMESPACE/NAME.
	Name string
	// Addresses that others see it by. Without any it cannot be asked about.
	Addresses []netip.Addr
	// Why it is no pod to policy, as in "shop/agent WHY".
	Why string
}

// Book knows the parties of a world. It does not change, and may be used from several
// goroutines while nobody changes the world.
type Book struct {
	pods      []Party // sorted by name
	holders   map[netip.Addr]int
	services  map[string][]netip.Addr
	outsiders []Outsider
}

// NewBook reads who is in the world. Outsiders are pods that are not, and that can be asked about
// all the same.
func NewBook(world verdict.World, outsiders ...Outsider) *Book {
	b := &Book{holders: map[netip.Addr]int{}, services: map[string][]netip.Addr{}, outsiders: outsiders}
	for _, resource := range world {
		switch r := resource.(type) {
		case *policy.WorkloadEndpoint:
			b.pods = append(b.pods, Party{
				Name: r.Namespace + "/" + r.Name, Endpoint: r.Key(), Addresses: r.Addresses, Ports: r.Ports,
			})
		case *policy.ServiceBackends:
			name := r.Namespace + "/" + r.Service
			b.services[name] = append(b.services[name], r.Addresses...)
		}
	}
	slices.SortFunc(b.pods, func(x, y Party) int { return strings.Compare(x.Name, y.Name) })
	for i, pod := range slices.Backward(b.pods) {
		for _, addr := range pod.Addresses {
			b.holders[addr] = i // the first, as in package verdict
		}
	}
	for _, addrs := range b.services {
		slices.SortFunc(addrs, netip.Addr.Compare)
	}
	return b
}

// Pods returns the pods that policy applies to, sorted by name.
func (b *Book) Pods() []Party { return slices.Clone(b.pods) }

// Outsiders returns the pods that policy does not apply to, in the order given.
func (b *Book) Outsiders() []Outsider { return slices.Clone(b.outsiders) }

// Find returns those that a text means, at least one, see the package's description. A pattern
// means pods that policy applies to, and no others.
func (b *Book) Find(text string) ([]Party, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" {
			return nil, fmt.Errorf("%q: want an address without a zone", text)
		}
		return []Party{b.at(addr)}, nil
	}
	if name, ok := strings.CutPrefix(text, servicePrefix); ok && strings.Contains(name, "/") {
		return b.service(name)
	}
	if strings.Contains(text, "*") {
		return b.match(text)
	}
	for _, pod := range b.pods {
		if pod.Name == text {
			if len(pod.Addresses) == 0 {
				return nil, fmt.Errorf("%s has no address", text)
			}
			return []Party{pod}, nil
		}
	}
	for _, o := range b.outsiders {
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

// at returns the party at an address. A pod that holds it lends its ports, and policy finds it by
// the address.
func (b *Book) at(addr netip.Addr) Party {
	addr = addr.Unmap()
	p := Party{Name: addr.String(), Addresses: []netip.Addr{addr}}
	if i, ok := b.holders[addr]; ok {
		p.Ports = b.pods[i].Ports
	}
	return p
}

func (b *Book) match(pattern string) ([]Party, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	var found []Party
	for _, pod := range b.pods {
		if ok, _ := path.Match(pattern, pod.Name); ok && len(pod.Addresses) > 0 {
			found = append(found, pod)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no known pod matches %q", pattern)
	}
	return found, nil
}

// service returns the backends of a service: the pods that hold the addresses, or the addresses.
func (b *Book) service(name string) ([]Party, error) {
	addrs, ok := b.services[name]
	if !ok {
		return nil, fmt.Errorf("%q: no known EndpointSlice belongs to a service %s", servicePrefix+name, name)
	}
	var found []Party
	for _, addr := range slices.Compact(slices.Clone(addrs)) {
		p := b.at(addr)
		if i, held := b.holders[addr]; held {
			p.Name, p.Endpoint = b.pods[i].Name, b.pods[i].Endpoint
		}
		found = append(found, p)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the service %s has no backends", name)
	}
	return found, nil
}

// Same reports whether two parties are one: what it says to itself does not leave it, and no policy
// sees it.
func Same(a, b Party) bool {
	if a.Endpoint != (policy.Key{}) && b.Endpoint != (policy.Key{}) {
		return a.Endpoint == b.Endpoint
	}
	return slices.ContainsFunc(a.Addresses, func(addr netip.Addr) bool { return slices.Contains(b.Addresses, addr) })
}
