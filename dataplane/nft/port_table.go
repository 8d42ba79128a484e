// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/observed"
	"github.com/wayleave/wayleave/dataplane/nft/internal/ports"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// portTable programs the table of family bridge, which limits each port of a bridge to the
// addresses of its endpoint. If there is no bridge in render.Config.Bridges, the portTable is nil.
//
// An address may move from one port to another. Packets from the address then count as packets of
// its former owner until the main table has the new owner. So the ports change in two steps, with
// the change of the main table between them:
//
//	prepare ─▶ handovers, main table ─▶ admit
//
// The steps on the port table are:
//
//   - prepare: ports lose addresses, and gain those that no other port has lost. So the address of
//     a new endpoint is bound to its port before policy admits the endpoint.
//   - admit: ports gain the addresses that other ports have lost.
type portTable struct {
	config     render.Config
	applier    *applier.Applier
	interfaces *observed.Interfaces
	endpoints  map[policy.Key]*dataplane.Endpoint
	// programmed has the ports as they were last written without an error.
	programmed map[string]boundPort
	// allowed has, for each address, the ports that may send from the address by the kernel's
	// table. It is nil until the table of an earlier process was read. The field moving has the
	// addresses that a port has lost since the main table was last programmed.
	allowed map[netip.Addr][]string
	moving  map[netip.Addr]struct{}
	// withheld has the interfaces whose ports could not be bound. Their endpoints are at fault in
	// the main table.
	withheld map[string]struct{}
	faults   []error // errors of single endpoints
	// boundVersion is the version of the interfaces with which the endpoints were bound. It is nil
	// if they must be bound again, because endpoints changed or the last write failed.
	boundVersion *uint64
}

// boundPort is a port with the endpoint behind it.
type boundPort struct {
	key policy.Key
	ports.Port
}

func (p *boundPort) equal(o *boundPort) bool {
	return p.key == o.key && p.MAC == o.MAC && p.Drop == o.Drop && slices.Equal(p.Addresses, o.Addresses) &&
		slices.Equal(p.Withheld, o.Withheld)
}

// newPortTable opens the sockets of the table, or returns nil if there are no bridges.
//
// Errors: those of applier.New.
func newPortTable(cfg Config, interfaces *observed.Interfaces) (*portTable, error) {
	if len(cfg.Renderer.Bridges) == 0 {
		return nil, nil
	}
	a, err := applier.New(applier.Config{
		Family: ruleset.FamilyBridge, Name: cfg.Renderer.Table, NetNS: cfg.NetNS, Shared: cfg.Shared,
		BeforeWrite: cfg.BeforeWrite, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	p := &portTable{config: cfg.Renderer, applier: a, interfaces: interfaces}
	p.reset()
	return p, nil
}

// reset removes all endpoints from the desired state.
func (p *portTable) reset() {
	p.endpoints, p.programmed = map[policy.Key]*dataplane.Endpoint{}, map[string]boundPort{}
	p.moving, p.withheld = map[netip.Addr]struct{}{}, map[string]struct{}{}
	p.allowed, p.faults, p.boundVersion = nil, nil, nil
}

// Update records the endpoints of a batch.
func (p *portTable) Update(b dataplane.Batch) {
	if p != nil && updateEndpoints(p.endpoints, b) {
		p.boundVersion = nil
	}
}

// updateEndpoints applies a batch to endpoints, and reports whether the batch has events of
// endpoints.
func updateEndpoints(endpoints map[policy.Key]*dataplane.Endpoint, b dataplane.Batch) (changed bool) {
	for _, e := range b.Events {
		switch e := e.(type) {
		case *dataplane.EndpointUpdate:
			endpoints[e.Key], changed = e.Endpoint, true
		case *dataplane.EndpointRemove:
			delete(endpoints, e.Key)
			changed = true
		}
	}
	return changed
}

// bind returns the ports of bridged endpoints by interface, and an error for each invalid MAC
// address. If two endpoints share an interface, or an address on one bridge, their ports drop. For
// these endpoints, bind returns no error, because the main table reports them.
func (p *portTable) bind(
	endpoints map[policy.Key]*dataplane.Endpoint, master func(string) render.Master,
) (bound map[string]boundPort, errs []error) {
	type bridgeAddress struct {
		bridge  string
		address netip.Addr
	}
	bound = map[string]boundPort{}
	owners := map[bridgeAddress]string{}
	drop := func(name string) {
		port := bound[name]
		port.Drop = true
		bound[name] = port
	}
	for _, key := range slices.SortedFunc(maps.Keys(endpoints), policy.Key.Compare) {
		e := endpoints[key]
		m := master(e.Interface)
		if m.Kind != "bridge" || !slices.Contains(p.config.Bridges, m.Name) || !ruleset.ValidIfname(e.Interface) {
			continue
		}
		port := boundPort{key: key, Port: ports.Port{Drop: e.Down}}
		if e.MAC != "" {
			mac, err := net.ParseMAC(e.MAC)
			if err != nil || len(mac) != len(port.MAC) {
				errs = append(errs, portError(key, fmt.Errorf("%q is not a MAC address of six bytes", e.MAC)))
				port.Drop = true
			} else {
				port.MAC = ports.MAC(mac)
			}
		}
		if other, taken := bound[e.Interface]; taken { // both are at fault in the main table
			port.Addresses, port.Drop = other.Addresses, true
		}
		for _, a := range e.Addresses {
			a = a.Unmap().WithZone("")
			if a.IsGlobalUnicast() || a.IsLinkLocalUnicast() {
				port.Addresses = append(port.Addresses, a)
			}
		}
		slices.SortFunc(port.Addresses, netip.Addr.Compare)
		port.Addresses = slices.Compact(port.Addresses)
		bound[e.Interface] = port
		for _, a := range port.Addresses {
			at := bridgeAddress{m.Name, a}
			if owner, taken := owners[at]; taken && owner != e.Interface { // both are at fault in the main table
				drop(owner)
				drop(e.Interface)
			}
			owners[at] = e.Interface
		}
	}
	return bound, errs
}

// prepare programs the first step of a change. With resync, it also repairs the table. If that
// fails, the endpoints of ports that are not bound become faults in the main table.
//
// Errors: *dataplane.ApplyError.
func (p *portTable) prepare(ctx context.Context, main *render.Renderer, resync bool) []error {
	if p == nil {
		return nil
	}
	version := p.interfaces.Version()
	if p.boundVersion != nil && *p.boundVersion == version && !resync {
		return p.faults
	}
	p.boundVersion = nil
	for name := range p.withheld {
		main.SetMaster(name, p.interfaces.Master(name))
	}
	clear(p.withheld)
	var bound map[string]boundPort
	bound, p.faults = p.bind(p.endpoints, p.interfaces.Master)
	err := p.adopt()
	if err == nil {
		p.holdBack(bound)
		err = p.write(ctx, bound)
	}
	if err == nil {
		p.boundVersion = &version
		return p.faults
	}
	for name, port := range bound {
		if old, ok := p.programmed[name]; !ok || !old.equal(&port) {
			p.withheld[name] = struct{}{}
			main.SetMaster(name, render.UnknownMaster())
		}
	}
	return append(slices.Clone(p.faults), p.errorsOf(bound, err)...)
}

// adopt reads from the kernel's table which ports may send from each address.
func (p *portTable) adopt() error {
	if p.allowed != nil {
		return nil
	}
	allowed := map[netip.Addr][]string{}
	for _, set := range ports.AddressSets() {
		err := p.applier.Keys(set, func(key []byte) {
			if len(key) < ruleset.IfnameSize {
				return // a set of another type has that name
			}
			name := strings.TrimRight(string(key[:ruleset.IfnameSize]), "\x00")
			if a, ok := netip.AddrFromSlice(key[ruleset.IfnameSize:]); ok && !slices.Contains(allowed[a], name) {
				allowed[a] = append(allowed[a], name)
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.allowed = allowed
	return nil
}

// holdBack withholds an address from a port if another port has lost the address and the main table
// is not programmed yet. A port that loses an address has it as withheld, too: until then, no port
// may send from the address.
func (p *portTable) holdBack(bound map[string]boundPort) {
	lost := map[string][]netip.Addr{}
	for a, names := range p.allowed {
		for _, name := range names {
			if port := bound[name]; port.Drop || !slices.Contains(port.Addresses, a) {
				p.moving[a] = struct{}{}
				lost[name] = append(lost[name], a)
			}
		}
	}
	for name, port := range bound {
		var kept []netip.Addr
		for _, a := range port.Addresses {
			if _, moves := p.moving[a]; moves && !slices.Contains(p.allowed[a], name) {
				port.Withheld = append(port.Withheld, a)
			} else {
				kept = append(kept, a)
			}
		}
		port.Addresses = kept
		bound[name] = port
	}
	for name, addresses := range lost {
		port, stays := bound[name]
		port.Drop = port.Drop || !stays
		port.Withheld = append(port.Withheld, addresses...)
		slices.SortFunc(port.Withheld, netip.Addr.Compare)
		port.Withheld = slices.Compact(port.Withheld)
		bound[name] = port
	}
}

// write programs the ports.
func (p *portTable) write(ctx context.Context, bound map[string]boundPort) error {
	if err := p.applier.Apply(ctx, p.table(bound)); err != nil {
		return err // the kernel may have any of these ports: prepare withholds those that are not in programmed
	}
	p.programmed = bound
	p.allowed = map[netip.Addr][]string{}
	for name, port := range bound {
		for _, a := range port.Addresses {
			if !port.Drop {
				p.allowed[a] = append(p.allowed[a], name)
			}
		}
	}
	return nil
}

// table returns the table with these ports.
func (p *portTable) table(bound map[string]boundPort) *ruleset.Table {
	all := make(map[string]ports.Port, len(bound))
	for name, port := range bound {
		all[name] = port.Port
	}
	return ports.Table(ports.Config{
		Table: p.config.Table, InterfacePrefix: p.config.InterfacePrefix,
		AcceptUnknown: p.config.UnknownWorkloads == policy.HostAccept,
	}, all, p.interfaces.BridgeAddresses())
}

// admit programs the second step, after the main table has the new owners of addresses.
//
// Errors: *dataplane.ApplyError.
func (p *portTable) admit(ctx context.Context) []error {
	if p == nil || p.boundVersion == nil {
		return nil
	}
	clear(p.moving)
	if !slices.ContainsFunc(slices.Collect(maps.Values(p.programmed)), func(port boundPort) bool {
		return len(port.Withheld) > 0
	}) {
		return nil
	}
	bound, _ := p.bind(p.endpoints, p.interfaces.Master)
	if err := p.write(ctx, bound); err != nil {
		p.boundVersion = nil
		return p.errorsOf(bound, err)
	}
	return nil
}

// errorsOf returns one error for each bridged endpoint, or one general error if there is no bridged
// endpoint.
func (p *portTable) errorsOf(bound map[string]boundPort, err error) (errs []error) {
	detail := ""
	if failed := (*applier.Error)(nil); errors.As(err, &failed) {
		detail = failed.Detail
	}
	byKey := func(a, b boundPort) int { return a.key.Compare(b.key) }
	for _, port := range slices.SortedFunc(maps.Values(bound), byKey) {
		if port.key == (policy.Key{}) {
			continue // the endpoint of this port was removed
		}
		errs = append(errs, &dataplane.ApplyError{
			Backend: backend, Op: "bind the port of the bridge", Object: port.key, Detail: detail, Err: err,
		})
	}
	if len(errs) == 0 {
		errs = append(errs, &dataplane.ApplyError{
			Backend: backend, Op: "program " + p.object(), Detail: detail, Err: err,
		})
	}
	return errs
}

func portError(key policy.Key, err error) error {
	return &dataplane.ApplyError{Backend: backend, Op: "bind the port of the bridge", Object: key, Err: err}
}

// unjudged returns the endpoints for which policy does not see frames between two ports of a
// bridge.
func (p *portTable) unjudged() map[policy.Key]string {
	if p == nil {
		return nil
	}
	out := map[policy.Key]string{}
	for name, port := range p.programmed {
		bridge := p.interfaces.Master(name).Name
		if text := unjudgedFrames(bridge, p.interfaces.BridgeCalls(bridge)); text != "" && !port.Drop {
			out[port.key] = text
		}
	}
	return out
}

// unjudgedFrames names the frames between two ports of a bridge that do not pass the netfilter
// hooks of IPv4 or IPv6. It is empty if all frames pass them.
func unjudgedFrames(bridge string, calls observed.Calls) string {
	families, sysctls := "IPv4 and IPv6", "bridge-nf-call-iptables and net.bridge.bridge-nf-call-ip6tables are"
	switch {
	case calls.IPv4 && calls.IPv6:
		return ""
	case calls.IPv4:
		families, sysctls = "IPv6", "bridge-nf-call-ip6tables is"
	case calls.IPv6:
		families, sysctls = "IPv4", "bridge-nf-call-iptables is"
	}
	return fmt.Sprintf("%s between ports of %s: net.bridge.%s off", families, bridge, sysctls)
}

// object names the table.
func (p *portTable) object() string { return "table bridge " + p.config.Table }

// plan returns the changes that a batch would make. masters has the master of each interface.
func (p *portTable) plan(b dataplane.Batch, masters map[string]render.Master) (string, error) {
	if p == nil {
		return "", nil
	}
	endpoints := maps.Clone(p.endpoints)
	updateEndpoints(endpoints, b)
	bound, _ := p.bind(endpoints, func(name string) render.Master { return masters[name] })
	ops, err := p.applier.PlanTable(p.table(bound))
	if err != nil {
		return "", err
	}
	return ruleset.Script(ops), nil
}

// Teardown deletes the table.
//
// Errors: *dataplane.ApplyError, and that of the context.
func (p *portTable) Teardown(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.reset()
	err := p.applier.Teardown(ctx)
	if failed := (*applier.Error)(nil); errors.As(err, &failed) {
		return applyError(failed)
	}
	return err
}

// planTeardown returns the deletion of the table, or nothing if there is no table.
//
// Errors: those of reading the kernel.
func (p *portTable) planTeardown() (string, error) {
	if p == nil {
		return "", nil
	}
	exists, err := p.applier.Exists()
	if !exists || err != nil {
		return "", err
	}
	return "delete " + p.object() + "\n", nil
}

// compare compares the bridge table in the kernel with the desired one, and adds the result to that
// of the main table.
func (p *portTable) compare(ctx context.Context, netns int, c applier.Comparison) (applier.Comparison, error) {
	if p == nil {
		return c, nil
	}
	table := p.applier.Table()
	if table == nil {
		return c, ErrNoTable
	}
	own, err := applier.Compare(ctx, netns, table)
	if err != nil {
		return c, err
	}
	c.Chains, c.Sets, c.Elements = c.Chains+own.Chains, c.Sets+own.Sets, c.Elements+own.Elements
	c.Changes += own.Changes
	if own.Reason != "" {
		c.Reason = cmp.Or(c.Reason, p.object()+": "+own.Reason)
	}
	return c, nil
}

// Close closes the sockets, and returns the errors of that.
func (p *portTable) Close() error {
	if p == nil {
		return nil
	}
	return p.applier.Close()
}
