// SPDX-License-Identifier: Apache-2.0

package nodetraffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/policy"
)

// node is one of the two nodes.
type node struct {
	mode     Mode
	number   int
	ns       *netns.NS
	pod      *netns.Workload
	resource policy.Node // without keys
	graph    *calcgraph.Graph
	driver   *dataplane.Driver
	// rounds has an element after an attempt of the driver to program.
	rounds chan struct{}
	// announced has the keys that the WireGuard dataplane last announced.
	announced chan []policy.WireguardKey
	stop      func() error
}

func newNode(mode Mode, number int, ns *netns.NS) *node {
	n := &node{
		mode: mode, number: number, ns: ns,
		rounds: make(chan struct{}, 1), announced: make(chan []policy.WireguardKey, 1),
		resource: policy.Node{
			Name: fmt.Sprintf("n%d", number),
			Addresses: []netip.Prefix{
				netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", number)),
				netip.MustParsePrefix(fmt.Sprintf("2001:db8::%d/64", number)),
			},
		},
	}
	tunnel4, tunnel6 := n.block(four).Addr(), n.block(six).Addr()
	switch mode.encapsulation {
	case vxlan:
		n.resource.IPv4VXLANTunnelAddr, n.resource.IPv6VXLANTunnelAddr = tunnel4, tunnel6
	case ipip:
		n.resource.IPv4IPIPTunnelAddr = tunnel4
	case wireGuard:
		n.resource.IPv4WireguardAddr, n.resource.IPv6WireguardAddr = tunnel4, tunnel6
	}
	return n
}

// block returns the node's block of addresses. Its tunnel devices have the first address of the
// block.
func (n *node) block(f family) netip.Prefix {
	if f == six {
		return netip.MustParsePrefix(fmt.Sprintf("fd65::%d:0/122", n.number))
	}
	return netip.MustParsePrefix(fmt.Sprintf("10.65.%d.0/26", n.number))
}

// podAddress returns the address of the node's pod.
func (n *node) podAddress(f family) netip.Addr { return n.block(f).Addr().Next() }

// outer returns the node's address in the outer header of encapsulated packets from a pod. In
// VXLAN, outer and inner header have the same family. In WireGuard, both families of inner packets
// have the same outer address.
func (n *node) outer(mode Mode, pod netip.Addr) netip.Addr {
	if mode.encapsulation == vxlan && pod.Is6() {
		return n.resource.Addresses[1].Addr()
	}
	return n.resource.Addresses[0].Addr()
}

// resources returns the resources of the node, of its blocks and of its pod.
func (n *node) resources() []policy.Resource {
	resource := n.resource
	list := []policy.Resource{&resource, &policy.WorkloadEndpoint{
		Namespace: "shop", Name: n.resource.Name, Node: n.resource.Name, Interface: n.pod.Host.Name,
		Addresses: n.pod.Addresses, MAC: n.pod.Link.MAC.String(),
	}}
	for _, f := range n.mode.families {
		list = append(list, &policy.Block{CIDR: n.block(f), Node: n.resource.Name})
	}
	return list
}

// start makes the graph and the driver, and runs the driver until stop.
func (n *node) start(keys string) (err error) {
	var closes []func() error
	closeAll := func() (err error) {
		for _, c := range closes {
			err = errors.Join(err, c())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll())
		}
	}()
	routing, err := routes.New(routes.Config{NetNS: n.ns.FD(), ForwardAllIPv4: true, ForwardAllIPv6: true})
	if err != nil {
		return err
	}
	closes = append(closes, routing.Close)
	var dataplanes []dataplane.Dataplane
	if n.mode.encapsulation == wireGuard {
		encryption, err := wireguard.New(wireguard.Config{
			Node: n.resource.Name, NetNS: n.ns.FD(), Announce: n.announce,
			Devices: []wireguard.Device{{KeyFile: filepath.Join(keys, n.resource.Name+".key")}},
		})
		if err != nil {
			return err
		}
		closes = append(closes, encryption.Close)
		dataplanes = append(dataplanes, encryption)
	}
	dataplanes = append(dataplanes, routing)
	n.driver, err = dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: dataplanes, Hooks: dataplane.Hooks{Applied: func(dataplane.AppliedInfo) {
			select {
			case n.rounds <- struct{}{}:
			default: // await reads the newest state in any case
			}
		}},
	})
	if err != nil {
		return err
	}
	if n.graph, err = calcgraph.New(calcgraph.Config{Node: n.resource.Name}); err != nil {
		return err
	}
	// stop ends the driver first, and then closes the sockets that the driver uses.
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = n.driver.Run(ctx) }) // its error is that of ctx
	n.stop = func() error {
		cancel()
		running.Wait()
		return closeAll()
	}
	return nil
}

// announce stores the keys, for the method keys. Only the driver's goroutine calls it.
func (n *node) announce(keys []policy.WireguardKey) {
	select {
	case <-n.announced:
	default:
	}
	n.announced <- keys
}

// keys waits for the keys that the node announces.
func (n *node) keys(ctx context.Context) ([]policy.WireguardKey, error) {
	select {
	case keys := <-n.announced:
		return keys, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("node %s announces no key: %w", n.resource.Name, context.Cause(ctx))
	}
}

// send sends resources to the node's driver, as a complete state.
func (n *node) send(ctx context.Context, resources []policy.Resource) error {
	for _, r := range resources {
		n.graph.Update(policy.Update{Key: r.Key(), Resource: r})
	}
	n.graph.InSync()
	if err := n.driver.Send(ctx, n.graph.Flush()); err != nil {
		return fmt.Errorf("send to node %s: %w", n.resource.Name, err)
	}
	return nil
}

// await waits until the node has programmed everything that was sent.
func (n *node) await(ctx context.Context) error {
	for {
		status := n.driver.Status()
		switch {
		case lacksFeature(status.LastError): // waiting does not help
			return fmt.Errorf("program node %s: %w", n.resource.Name, status.LastError)
		case status.InSync && !status.Pending && status.LastError == nil:
			return nil
		}
		select {
		case <-n.rounds:
		case <-ctx.Done():
			return fmt.Errorf("program node %s: %w", n.resource.Name, errors.Join(context.Cause(ctx), status.LastError))
		}
	}
}

// lacksFeature reports whether the kernel lacks a module for the mode.
func lacksFeature(err error) bool {
	var missing *dataplane.FeatureError
	return errors.As(err, &missing)
}
