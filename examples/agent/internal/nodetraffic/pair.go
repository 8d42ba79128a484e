// SPDX-License-Identifier: Apache-2.0

package nodetraffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/policy"
)

const (
	// bridge is the name of the bridge between the nodes.
	bridge = "net"
	// netlinkRoute is the netlink family of links (NETLINK_ROUTE).
	netlinkRoute = 0
)

// pair is two nodes and the network between them.
type pair struct {
	mode     Mode
	underlay *netns.NS
	nodes    []*node
	// folder is the folder of the key files, in the mode WireGuard.
	folder string
	// closes are called at the end. The function that was added last is called first.
	closes []func() error
}

// close ends everything that the pair has started, and waits until it has ended.
func (p *pair) close() (err error) {
	for i := range p.closes {
		err = errors.Join(err, p.closes[len(p.closes)-1-i]())
	}
	return err
}

// namespace makes a namespace that exists until close.
func (p *pair) namespace() (*netns.NS, error) {
	ns, err := netns.New()
	if err == nil {
		p.closes = append(p.closes, ns.Close)
	}
	return ns, err
}

// build makes the namespaces and links, with the addresses that an administrator would set.
func (p *pair) build() (err error) {
	if p.mode.encapsulation == wireGuard {
		if p.folder, err = os.MkdirTemp("", "wayleave-keys-"); err != nil {
			return err
		}
		p.closes = append(p.closes, func() error { return os.RemoveAll(p.folder) })
	}
	if p.underlay, err = p.namespace(); err != nil {
		return err
	}
	err = inNamespace(p.underlay, func(h *netlink.Handle) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = bridge
		return h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs})
	})
	if err != nil {
		return fmt.Errorf("add bridge %s: %w", bridge, err)
	}
	if err := p.underlay.Up(bridge); err != nil {
		return err
	}
	for number := 1; number <= 2; number++ {
		if err := p.addNode(number); err != nil {
			return fmt.Errorf("build node n%d: %w", number, err)
		}
	}
	return nil
}

// addNode makes a node with a pod, and links it to the bridge.
func (p *pair) addNode(number int) error {
	ns, err := p.namespace()
	if err != nil {
		return err
	}
	n := newNode(p.mode, number, ns)
	port := p.portOf(n)
	_, _, err = netns.Veth(netns.End{NS: ns, Name: "eth0"}, netns.End{NS: p.underlay, Name: port})
	if err != nil {
		return err
	}
	if err := p.addPort(port); err != nil {
		return fmt.Errorf("add port %s to bridge %s: %w", port, bridge, err)
	}
	for _, a := range n.resource.Addresses {
		if err := ns.AddAddr("eth0", a); err != nil {
			return err
		}
	}
	var addresses []netip.Addr
	for _, f := range p.mode.families {
		addresses = append(addresses, n.podAddress(f))
	}
	if n.pod, err = netns.NewWorkload(ns, "cali-"+n.resource.Name, addresses...); err != nil {
		return err
	}
	p.closes = append(p.closes, n.pod.NS.Close)
	p.nodes = append(p.nodes, n)
	return nil
}

// portOf returns the name of the bridge's port to a node.
func (p *pair) portOf(n *node) string { return "to-" + n.resource.Name }

// addPort makes an interface a port of the bridge.
func (p *pair) addPort(name string) error {
	return inNamespace(p.underlay, func(h *netlink.Handle) error {
		master, err := h.LinkByName(bridge)
		if err != nil {
			return err
		}
		link, err := h.LinkByName(name)
		if err != nil {
			return err
		}
		return h.LinkSetMaster(link, master)
	})
}

// inNamespace runs fn with a handle for the links of a namespace.
func inNamespace(ns *netns.NS, fn func(*netlink.Handle) error) error {
	return ns.Do(func() error {
		h, err := netlink.NewHandle(netlinkRoute)
		if err != nil {
			return err
		}
		defer h.Close()
		return fn(h)
	})
}

// program starts both nodes and waits until each has programmed its routes to the other. The error
// wraps a *dataplane.FeatureError if the kernel lacks the module.
func (p *pair) program(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, programTimeout, fmt.Errorf("not programmed within %s", programTimeout))
	defer cancel()
	for _, n := range p.nodes {
		if err := n.start(p.folder); err != nil {
			return fmt.Errorf("start node %s: %w", n.resource.Name, err)
		}
		p.closes = append(p.closes, n.stop)
	}
	if err := p.update(ctx, p.resources()); err != nil || p.mode.encapsulation != wireGuard {
		return err
	}
	var announced []policy.Resource
	for _, n := range p.nodes {
		keys, err := n.keys(ctx)
		if err != nil {
			return err
		}
		resource := n.resource
		resource.WireguardKeys = keys
		announced = append(announced, &resource)
	}
	return p.update(ctx, announced)
}

// update sends resources to both nodes, and waits until they are programmed.
func (p *pair) update(ctx context.Context, resources []policy.Resource) error {
	for _, n := range p.nodes {
		if err := n.send(ctx, resources); err != nil {
			return err
		}
	}
	for _, n := range p.nodes {
		if err := n.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// resources returns the pools, and for each node its Node resource, its blocks and its pod.
func (p *pair) resources() (list []policy.Resource) {
	for _, f := range p.mode.families {
		pool := &policy.IPPool{Name: "four", CIDR: netip.MustParsePrefix("10.65.0.0/16")}
		if f == six {
			pool = &policy.IPPool{Name: "six", CIDR: netip.MustParsePrefix("fd65::/64")}
		}
		switch p.mode.encapsulation {
		case vxlan:
			pool.VXLANMode = policy.EncapAlways
		case ipip:
			pool.IPIPMode = policy.EncapAlways
		}
		list = append(list, pool)
	}
	for _, n := range p.nodes {
		list = append(list, n.resources()...)
	}
	return list
}

// exchange sends a request from the pod of the first node to the pod of the second. The pods use
// their addresses with the given index.
func (p *pair) exchange(ctx context.Context, index int) (Exchange, error) {
	first, second := p.nodes[0], p.nodes[1]
	e := Exchange{From: first.pod.Addresses[index], To: second.pod.Addresses[index]}
	wire, err := openCapture(p.underlay, p.portOf(first))
	if err != nil {
		return e, fmt.Errorf("capture at %s: %w", p.portOf(first), err)
	}
	defer func() { _ = wire.close() }() // an error has no effect on the result
	answered, err := sendRequest(ctx, first.pod.NS, e.From, second.pod.NS, e.To)
	if err != nil {
		return e, fmt.Errorf("send from %s to %s: %w", e.From, e.To, err)
	}
	frames, err := wire.frames()
	if err != nil {
		return e, fmt.Errorf("read capture at %s: %w", p.portOf(first), err)
	}
	f := flow{e.From, e.To, first.outer(p.mode, e.From), second.outer(p.mode, e.From)}
	e.Wire, e.Faults = p.mode.check(frames, f)
	if !answered {
		e.Faults = append([]string{fmt.Sprintf("no answer within %.0f s", answerTimeout.Seconds())}, e.Faults...)
	}
	return e, nil
}
