// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/rtnl"
	"github.com/wayleave/wayleave/policy"
)

// uplink is the node's interface to the outside host.
const uplink = "uplink"

// netlinkRoute is the netlink family of links (NETLINK_ROUTE).
const netlinkRoute = 0

// Party is a workload or the outside host. It sends and answers packets.
type Party struct {
	// Name of the party, as in "shop/web".
	Name string
	// NS is the party's own network namespace. Build sets it.
	NS *netns.NS
	// Addresses of the party.
	Addresses []netip.Addr
	// Ports on which the party answers.
	Ports []policy.EndpointPort
}

// Node is a node that Build made. It is safe for concurrent use, except Close.
type Node struct {
	// NS is the network namespace of the node itself.
	NS *netns.NS
	// Parties are the workloads, in the order in which they were given, then the outside host.
	Parties []Party
}

// Build makes a node. For each endpoint, it makes a workload, and connects it to the node by the
// interface that the endpoint names. It connects the outside host to the node by the interface
// named "uplink". The node's default routes lead to the outside host.
func Build(endpoints []*policy.WorkloadEndpoint, outside Party) (*Node, error) {
	ns, err := netns.New()
	if err != nil {
		return nil, err
	}
	n := &Node{NS: ns}
	for _, e := range endpoints {
		err = errors.Join(err, n.addWorkload(e))
	}
	if err = errors.Join(err, n.addOutside(outside)); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Close closes the namespaces. The kernel deletes them when nothing uses them any more.
func (n *Node) Close() error {
	errs := []error{n.NS.Close()}
	for _, p := range n.Parties {
		errs = append(errs, p.NS.Close())
	}
	return errors.Join(errs...)
}

func (n *Node) addWorkload(e *policy.WorkloadEndpoint) error {
	name := e.Namespace + "/" + e.Name
	w, err := n.attach(e.Interface, Party{Name: name, Addresses: e.Addresses, Ports: e.Ports})
	if err == nil && e.MAC != "" {
		err = setMAC(w.NS, w.Link.Name, e.MAC)
	}
	if err != nil {
		return fmt.Errorf("node: build %s: %w", name, err)
	}
	return nil
}

// addOutside makes the outside host, and the default routes to it.
func (n *Node) addOutside(p Party) error {
	w, err := n.attach(uplink, p)
	if err == nil {
		// The agent sets sysctls of workloads' interfaces only.
		err = n.NS.SetSysctl("net/ipv4/conf/"+uplink+"/forwarding", "1")
	}
	for _, addr := range p.Addresses {
		if err == nil {
			err = n.NS.AddGateway(uplink, addr, w.Link.MAC)
		}
	}
	if err != nil {
		return fmt.Errorf("node: build %s: %w", p.Name, err)
	}
	return nil
}

// attach makes the party's namespace and link.
func (n *Node) attach(hostInterface string, p Party) (*netns.Workload, error) {
	w, err := netns.NewWorkload(n.NS, hostInterface, p.Addresses...)
	if err != nil {
		return nil, err
	}
	p.NS = w.NS
	n.Parties = append(n.Parties, p)
	return w, nil
}

// setMAC gives an interface a MAC address.
func setMAC(ns *netns.NS, name, text string) error {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return err
	}
	return ns.Do(func() error {
		handle, err := netlink.NewHandle(netlinkRoute)
		if err != nil {
			return err
		}
		defer handle.Close()
		link, err := handle.LinkByName(name)
		if err != nil {
			return err
		}
		// The kernel removes all neighbour entries of an interface whose MAC address changes,
		// including that of the gateway.
		conn, err := rtnl.Dial(rtnl.Config{})
		if err != nil {
			return err
		}
		defer conn.Close()
		var kept rtnl.Batch
		for _, family := range []int{4, 6} {
			neighbours, err := conn.Neighbours(family, 0, false)
			if err != nil {
				return err
			}
			for _, n := range neighbours {
				if n.Index == link.Attrs().Index && n.State == rtnl.StatePermanent {
					kept.ReplaceNeighbour(&n)
				}
			}
		}
		if err := handle.LinkSetHardwareAddr(link, mac); err != nil {
			return err
		}
		broken := conn.Do(&kept, func(_ int, refused error) { err = errors.Join(err, refused) })
		return errors.Join(broken, err)
	})
}
