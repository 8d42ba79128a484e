// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// maxInterfaceName is IFNAMSIZ less the terminating zero.
const maxInterfaceName = 15

// endpoint is what matters here of a dataplane.Endpoint, checked. It is immutable.
type endpoint struct {
	iface    string // empty if the name is not one
	prefixes []netip.Prefix
	mac      rtnl.MAC // zero if unknown
	err      error    // what is wrong with it; the rest is used
}

// desired is the state that the batches have asked for, and what of it has yet to be looked at.
type desired struct {
	inSync    bool
	endpoints map[policy.Key]*endpoint
	// claims has for each address the endpoints that want it, smallest key first. The first has it.
	claims map[netip.Prefix][]policy.Key
	// stale addresses may differ from the kernel. The key is the endpoint to blame for a
	// failure, if there is one.
	stale map[netip.Prefix]policy.Key
	// unset endpoints have an interface whose sysctls may differ, or something wrong.
	unset map[policy.Key]struct{}
}

func newDesired() *desired {
	return &desired{
		endpoints: map[policy.Key]*endpoint{},
		claims:    map[netip.Prefix][]policy.Key{},
		stale:     map[netip.Prefix]policy.Key{},
		unset:     map[policy.Key]struct{}{},
	}
}

func (w *desired) clone() *desired {
	c := &desired{
		inSync:    w.inSync,
		endpoints: maps.Clone(w.endpoints),
		claims:    make(map[netip.Prefix][]policy.Key, len(w.claims)),
		stale:     maps.Clone(w.stale),
		unset:     maps.Clone(w.unset),
	}
	for prefix, keys := range w.claims {
		c.claims[prefix] = slices.Clone(keys)
	}
	return c
}

// update takes a batch in.
func (w *desired) update(b dataplane.Batch) {
	for _, event := range b.Events {
		switch e := event.(type) {
		case *dataplane.EndpointUpdate:
			w.set(e.Key, newEndpoint(e.Endpoint))
		case *dataplane.EndpointRemove:
			w.remove(e.Key)
		case *dataplane.InSync:
			w.inSync = true
		}
	}
}

func (w *desired) set(key policy.Key, ep *endpoint) {
	if old := w.endpoints[key]; old != nil && old.equal(ep) {
		return // only its policy changed; what failed before is still stale
	}
	w.remove(key)
	w.endpoints[key] = ep
	w.unset[key] = struct{}{}
	for _, prefix := range ep.prefixes {
		keys := w.claims[prefix]
		at, _ := slices.BinarySearchFunc(keys, key, policy.Key.Compare)
		w.claims[prefix] = slices.Insert(keys, at, key)
		w.stale[prefix] = key
	}
}

func (w *desired) remove(key policy.Key) {
	old := w.endpoints[key]
	if old == nil {
		return
	}
	delete(w.endpoints, key)
	delete(w.unset, key)
	for _, prefix := range old.prefixes {
		keys := slices.DeleteFunc(w.claims[prefix], func(k policy.Key) bool { return k == key })
		if w.claims[prefix] = keys; len(keys) == 0 {
			delete(w.claims, prefix)
		} else {
			w.unset[keys[0]] = struct{}{} // its interface may be another since it was looked at
		}
		w.stale[prefix] = key
	}
}

// owner returns the endpoint that has the address, if any.
func (w *desired) owner(prefix netip.Prefix) (policy.Key, *endpoint) {
	keys := w.claims[prefix]
	if len(keys) == 0 {
		return policy.Key{}, nil
	}
	return keys[0], w.endpoints[keys[0]]
}

// losers returns the endpoints that want the address and do not have it.
func (w *desired) losers(prefix netip.Prefix) []policy.Key {
	if keys := w.claims[prefix]; len(keys) > 1 {
		return keys[1:]
	}
	return nil
}

// touchAll makes everything be looked at: what is wanted, and what the kernel has.
func (w *desired) touchAll(have *observed) {
	for prefix := range w.claims {
		w.touch(prefix)
	}
	for prefix := range have.routes {
		w.touch(prefix)
	}
	for prefix := range have.neighbours {
		w.touch(prefix)
	}
	for key := range w.endpoints {
		w.unset[key] = struct{}{}
	}
}

func (w *desired) touch(prefix netip.Prefix) {
	if _, stale := w.stale[prefix]; !stale {
		w.stale[prefix], _ = w.owner(prefix)
	}
}

// newEndpoint checks what the caller should have checked: what is wrong is left out.
func newEndpoint(e *dataplane.Endpoint) *endpoint {
	ep := &endpoint{iface: e.Interface}
	var errs []error
	if !validInterface(e.Interface) {
		ep.iface = ""
		errs = append(errs, fmt.Errorf("%w: %q is no name of an interface", ErrEndpoint, e.Interface))
	}
	for _, addr := range e.Addresses {
		addr = addr.Unmap()
		if !workloadAddr(addr) {
			errs = append(errs, fmt.Errorf("%w: %s is no address of a workload", ErrEndpoint, addr))
			continue
		}
		if addr.Is6() && addr.IsLinkLocalUnicast() {
			continue // on its own link every host finds it, and elsewhere nobody may
		}
		ep.prefixes = append(ep.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
	}
	slices.SortFunc(ep.prefixes, comparePrefixes)
	ep.prefixes = slices.Compact(ep.prefixes)
	if e.MAC != "" {
		mac, err := net.ParseMAC(e.MAC)
		if err != nil || len(mac) != len(ep.mac) {
			errs = append(errs, fmt.Errorf("%w: %q is no MAC address of six bytes", ErrEndpoint, e.MAC))
		} else {
			ep.mac = rtnl.MAC(mac)
		}
	}
	ep.err = errors.Join(errs...)
	return ep
}

// workloadAddr reports whether a workload may have the address: it is one of a single host that is elsewhere.
func workloadAddr(a netip.Addr) bool {
	thisNetwork := a.Is4() && a.As4()[0] == 0 // RFC 1122, 3.2.1.3
	return a.IsValid() && a.Zone() == "" && !thisNetwork && !a.IsUnspecified() && !a.IsMulticast() && !a.IsLoopback() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// equal compares; endpoints with something wrong are never equal.
func (e *endpoint) equal(o *endpoint) bool {
	return e.iface == o.iface && e.mac == o.mac && e.err == nil && o.err == nil && slices.Equal(e.prefixes, o.prefixes)
}

// validInterface holds for names that the kernel would give; above all, they are safe in a path. The sysctls
// of "all" and "default" are not those of an interface.
func validInterface(name string) bool {
	return name != "all" && name != "default" && name != "" && len(name) <= maxInterfaceName && name != "." && name != ".." &&
		!strings.ContainsAny(name, "/: \t\n\v\f\r\x00")
}
