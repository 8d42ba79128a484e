// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// node has the objects of a node.
type node struct {
	addresses map[netip.Addr]bool
	workloads map[string]*object // by interface
	hosts     []*object          // host endpoints, sorted by name
}

// node returns the node with the name. If there is none, it adds one.
func (e *Evaluator) node(name string) *node {
	n := e.nodes[name]
	if n == nil {
		n = &node{addresses: map[netip.Addr]bool{}, workloads: map[string]*object{}}
		for _, addrs := range e.interfaces[name] {
			n.addAddresses(addrs...)
		}
		e.nodes[name] = n
	}
	return n
}

func (n *node) addAddresses(addrs ...netip.Addr) {
	for _, a := range addrs {
		n.addresses[a.Unmap()] = true
	}
}

func (e *Evaluator) addNode(r *policy.Node) {
	n := e.node(r.Name)
	for _, p := range r.Addresses {
		n.addAddresses(p.Addr())
		e.nodeAddresses[p.Addr().Unmap()] = true
	}
	n.addAddresses(r.TunnelAddresses()...)
}

func (e *Evaluator) addHostEndpoint(r *policy.HostEndpoint) {
	o := e.newEndpoint(r.Key(), r.Labels, r.Profiles, r.ExpectedIPs, r.Ports)
	o.host = r
	n := e.node(r.Node)
	n.addAddresses(r.ExpectedIPs...)
	n.hosts = append(n.hosts, o)
}

// end is the place at which a flow enters or leaves a node: the interface of a workload, or a host
// interface. If the fields workload and iface are empty, the place is one of the node's own
// processes.
type end struct {
	workload *object
	iface    string
	host     *object // of the interface, or nil; for a workload's, the one for all interfaces
}

// isProcess reports whether the end is one of the node's own processes.
func (at end) isProcess() bool { return at.workload == nil && at.iface == "" }

// hasAddress reports whether an address is one of the node's own.
func (n *node) hasAddress(addr netip.Addr) bool { return n.addresses[addr] || addr.IsLoopback() }

// entry returns the end at which a flow enters its node.
func (e *Evaluator) entry(f Flow) (end, error) {
	return e.resolveEnd(f.Node, f.SrcEndpoint, f.InInterface, f.Src, "source", "InInterface")
}

// exit returns the end at which a flow leaves its node.
func (e *Evaluator) exit(f Flow) (end, error) {
	return e.resolveEnd(f.Node, f.DstEndpoint, f.OutInterface, f.Dst, "destination", "OutInterface")
}

func (e *Evaluator) resolveEnd(
	name string, endpoint policy.Key, iface string, addr netip.Addr, side, field string,
) (end, error) {
	n := e.nodes[name]
	if n == nil {
		return end{}, fmt.Errorf("verdict: the world has no objects of node %q", name)
	}
	o := n.workloads[iface]
	switch {
	case endpoint != (policy.Key{}):
		if o = e.workloads[endpoint]; o == nil || o.workload.Node != name {
			return end{}, fmt.Errorf("verdict: %s is not a workload endpoint on node %s", endpoint, name)
		}
		if iface != "" && iface != o.workload.Interface {
			return end{}, fmt.Errorf("verdict: the interface of %s is %s, not %s", endpoint, o.workload.Interface,
				iface)
		}
	case iface == "":
		o = e.workload(endpoint, addr, name)
	}
	switch {
	case o != nil:
		return end{workload: o, host: n.allInterfaces()}, nil
	case iface != "":
		host, err := e.hostEndpoint(name, iface)
		return end{iface: iface, host: host}, err
	case n.hasAddress(addr):
		return end{}, nil
	default:
		return end{}, fmt.Errorf(
			"verdict: %s %s is not an address of node %s or of a workload on it, and %s is not set",
			side, addr, name, field)
	}
}

// hostEndpoint returns the host endpoint that governs an interface, or nil. Of the host endpoints
// that match by name or address, it returns the one with the smallest name (S123). If none matches,
// it returns the host endpoint for all interfaces. The host endpoint for all interfaces does not
// govern the loopback interface.
func (e *Evaluator) hostEndpoint(node, iface string) (*object, error) {
	n := e.nodes[node]
	for _, o := range n.hosts {
		h := o.host
		switch {
		case h.InterfaceName == policy.AllInterfaces:
		case h.InterfaceName != "":
			if h.InterfaceName == iface {
				return o, nil
			}
		case len(h.ExpectedIPs) > 0:
			addrs, known := e.interfaces[node][iface]
			if !known {
				return nil, fmt.Errorf("verdict: %s has no InterfaceName, and Config.Interfaces has no "+
					"addresses of %s on node %s",
					o.key, iface, node)
			}
			if slices.ContainsFunc(addrs, func(a netip.Addr) bool {
				return slices.Contains(h.ExpectedIPs, a.Unmap())
			}) {
				return o, nil
			}
		}
	}
	if iface == loopback {
		return nil, nil
	}
	return n.allInterfaces(), nil
}

// loopback is the name of the loopback interface.
const loopback = "lo"

// allInterfaces returns the host endpoint for all interfaces, or nil.
func (n *node) allInterfaces() *object {
	for _, o := range n.hosts {
		if o.host.InterfaceName == policy.AllInterfaces {
			return o
		}
	}
	return nil
}
