// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// add links a container to the node, registers it, and waits until its endpoint is programmed.
func add(args *skel.CmdArgs) error {
	c, k, err := read(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	addrs, err := c.allocate(ctx, args)
	if err != nil {
		return err
	}
	link, err := connect(linkConfig{
		namespace: args.Netns, inside: args.IfName, outside: c.hostInterface(k), mac: mac(args), mtu: c.MTU,
		addresses: addrs,
	})
	if err != nil {
		return also(types.NewError(types.ErrIOFailure, "cannot link the container to the node", err.Error()),
			c.disconnect(args, k))
	}
	endpoint := &policy.WorkloadEndpoint{
		Namespace: k.Namespace, Name: k.Name, Interface: c.hostInterface(k), Addresses: addrs, MAC: mac(args).String(),
		Labels: c.Labels, Profiles: c.Profiles,
	}
	where := "/v1/registry?" + k.parameters(url.Values{"timeout": {c.requestTimeout().String()}}).Encode()
	if _, err := api.Send[api.Registered](ctx, api.NewClient(c.Socket), http.MethodPut, where, endpoint); err != nil {
		err := types.NewError(types.ErrTryAgainLater, "the agent has not programmed the container",
			c.explain(err).Error())
		return also(err, c.undo(args, k))
	}
	return types.PrintResult(result(c, args, link, addrs), c.CNIVersion)
}

func read(args *skel.CmdArgs) (*config, container, error) {
	c, err := parse(args.StdinData)
	if err != nil {
		return nil, container{}, err
	}
	k, err := c.identify(args)
	return c, k, err
}

// allocate returns the addresses of a new container: at least one.
func (c *config) allocate(ctx context.Context, args *skel.CmdArgs) (addrs []netip.Addr, err error) {
	if c.IPAM.Type == "" {
		addrs, err = c.runtimeAddresses()
	} else {
		addrs, err = c.delegate(ctx, args)
	}
	if err == nil && len(addrs) == 0 {
		err = types.NewError(types.ErrInvalidNetworkConfig, "no addresses",
			"want an ipam, or the capability ips and addresses from the runtime")
	}
	return addrs, err
}

// delegate calls the ipam plugin to allocate addresses.
func (c *config) delegate(ctx context.Context, args *skel.CmdArgs) ([]netip.Addr, error) {
	given, err := invoke.DelegateAdd(ctx, c.IPAM.Type, args.StdinData, nil)
	if err != nil {
		return nil, err
	}
	r, err := current.NewResultFromResult(given)
	if err != nil {
		return nil, errors.Join(err, c.release(args))
	}
	var addrs []netip.Addr
	for _, ip := range r.IPs {
		if addr, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs, nil
}

// check checks that a container is still as add left it.
func check(args *skel.CmdArgs) error {
	c, k, err := read(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	r, err := api.Get[api.Registered](ctx, api.NewClient(c.Socket), registration(k.Key))
	switch {
	case err != nil:
		return types.NewError(types.ErrTryAgainLater, "the agent does not answer", c.explain(err).Error())
	case r.Endpoint == nil:
		return types.NewError(types.ErrUnknownContainer, "the container is not registered with the agent",
			k.String()+": recreate the container")
	case r.State != "up":
		return types.NewError(types.ErrInternal, "the container is not programmed: it is "+r.State, r.Error)
	}
	if err := inspect(args.Netns, args.IfName, r.Endpoint); err != nil {
		return types.NewError(types.ErrInternal, "the container's link has changed", err.Error())
	}
	if c.IPAM.Type != "" {
		return invoke.DelegateCheck(ctx, c.IPAM.Type, args.StdinData, nil)
	}
	return nil
}

// unavailable is the code of the specification for a plugin that cannot serve ADD now.
const unavailable = 50

// status reports whether containers can be added.
func status(args *skel.CmdArgs) error {
	c, err := parse(args.StdinData)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	s, err := api.Get[api.Status](ctx, api.NewClient(c.Socket), "/v1/status")
	switch {
	case err != nil:
		return types.NewError(unavailable, "the agent does not answer", c.explain(err).Error())
	case !s.Ready:
		return types.NewError(unavailable, "the agent is not ready", s.LastError)
	case c.IPAM.Type != "":
		return invoke.DelegateStatus(ctx, c.IPAM.Type, args.StdinData, nil)
	}
	return nil
}

// result returns the result of ADD for the runtime.
func result(c *config, args *skel.CmdArgs, l *link, addrs []netip.Addr) *current.Result {
	r := &current.Result{
		CNIVersion: c.CNIVersion,
		Interfaces: []*current.Interface{
			{Name: l.outside, Mac: l.mac.String()},
			{Name: args.IfName, Mac: mac(args).String(), Sandbox: args.Netns},
		},
		DNS: c.DNS,
	}
	for _, addr := range addrs {
		r.IPs = append(r.IPs, &current.IPConfig{Interface: current.Int(1), Address: *network(addr, addr.BitLen())})
	}
	for _, gateway := range gateways(addrs) {
		r.Routes = append(r.Routes, &types.Route{Dst: *everything(gateway), GW: gateway.AsSlice()})
	}
	return r
}

func network(addr netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(bits, addr.BitLen())}
}

// everything returns the network of all addresses of a family.
func everything(addr netip.Addr) *net.IPNet {
	if addr.Is4() {
		return network(netip.IPv4Unspecified(), 0)
	}
	return network(netip.IPv6Unspecified(), 0)
}

// gateways returns the gateways of a container, one for each family. No interface has these
// addresses: the container has neighbour entries for them.
func gateways(addrs []netip.Addr) (list []netip.Addr) {
	has := map[bool]bool{}
	for _, addr := range addrs {
		has[addr.Is4()] = true
	}
	if has[true] {
		list = append(list, netip.AddrFrom4([4]byte{169, 254, 1, 1}))
	}
	if has[false] {
		list = append(list, netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 15: 1}))
	}
	return list
}

var errLink = errors.New("the interface does not exist")

func linkError(name string, err error) error { return fmt.Errorf("interface %s: %w", name, err) }
