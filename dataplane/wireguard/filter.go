// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// filter is the table of Config.RequireEncryption.
type filter struct {
	cfg     *Config
	applier *applier.Applier // nil if it is not open
	// absent is set once the table of an earlier process is known to be removed.
	absent bool
}

// priority is before connection tracking: NF_IP_PRI_RAW of the kernel.
const priority = -300

// Numbers of the kernel.
const (
	nfprotoIPv4, nfprotoIPv6 = 2, 10
	protocolUDP              = 17
	protocolICMPv6           = 58
	loopback                 = "lo"
	// Router solicitation is the first and redirect the last type of neighbour discovery (RFC 4861). Nodes send
	// it unencrypted.
	routerSolicitation, redirect = 133, 137
)

// ownSet returns the name of the set of a family's own prefixes.
func ownSet(family int) string { return fmt.Sprintf("own%d", family) }

// table returns the table. It drops a packet that did not enter by a WireGuard device, if its destination is in one
// of the ownPrefixes and this node's route to its source is by such a device. So exceptions of routes and rules hold
// in both directions.
func (f *filter) table(ownPrefixes []netip.Prefix) *ruleset.Table {
	accept, drop := ruleset.Verdict{Kind: ruleset.Accept}, ruleset.Verdict{Kind: ruleset.Drop}
	var names, ports []ruleset.Value
	for _, d := range f.cfg.Devices {
		names, ports = append(names, ruleset.Ifname(d.Name)), append(ports, ruleset.Port(d.Port))
	}
	chain := &ruleset.Chain{
		Name: "prerouting",
		Hook: &ruleset.Hook{Point: ruleset.Prerouting, Priority: priority, Policy: accept},
		Rules: []ruleset.Rule{{
			Matches:    []ruleset.Match{oneOf(ruleset.IIFName, append(names, ruleset.Ifname(loopback))...)},
			Statements: []ruleset.Statement{accept},
		}},
	}
	// With HostEncryption, the route to a node's address is by a device. Neighbour discovery and the encrypted
	// packets are not sent by one.
	if f.cfg.HostEncryption {
		chain.Rules = append(chain.Rules, ruleset.Rule{
			Matches: []ruleset.Match{
				equals(ruleset.NFProto, ruleset.Byte(nfprotoIPv6)),
				equals(ruleset.L4Proto, ruleset.Byte(protocolICMPv6)),
				ruleset.Compare{
					Field: ruleset.ICMPv6Type, Value: ruleset.Byte(routerSolicitation), Last: ruleset.Byte(redirect),
				},
			},
			Statements: []ruleset.Statement{accept},
		}, ruleset.Rule{
			Matches: []ruleset.Match{
				equals(ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal)),
				equals(ruleset.L4Proto, ruleset.Byte(protocolUDP)), oneOf(ruleset.Dport, ports...),
			},
			Statements: []ruleset.Statement{accept},
		})
	}
	t := &ruleset.Table{Name: f.cfg.FilterTable, Chains: []*ruleset.Chain{chain}}
	for _, family := range []struct {
		version int
		number  uint8
		typ     ruleset.Type
		field   ruleset.Field
	}{
		{4, nfprotoIPv4, ruleset.TypeIPv4, ruleset.IPDaddr}, {6, nfprotoIPv6, ruleset.TypeIPv6, ruleset.IP6Daddr},
	} {
		set := &ruleset.Set{Name: ownSet(family.version), Key: []ruleset.Type{family.typ}, Interval: true}
		for _, p := range ownPrefixes {
			if version(p.Addr()) == family.version {
				set.Elements = append(set.Elements, ruleset.Element{
					Key: []ruleset.Value{ruleset.Addr(p.Addr())}, Last: ruleset.Addr(ruleset.LastAddr(p)),
				})
			}
		}
		t.Sets = append(t.Sets, set)
		chain.Rules = append(chain.Rules, ruleset.Rule{
			Matches: []ruleset.Match{
				equals(ruleset.NFProto, ruleset.Byte(family.number)),
				ruleset.Lookup{Fields: []ruleset.Field{family.field}, Set: set.Name},
				oneOf(ruleset.FibSaddrOIFName, names...),
			},
			Statements: []ruleset.Statement{ruleset.Counter{}, drop},
			Comment:    "unencrypted packet from a node that encrypts",
		})
	}
	return t
}

func equals(f ruleset.Field, v ruleset.Value) ruleset.Match {
	return ruleset.Compare{Field: f, Value: v}
}

func oneOf(f ruleset.Field, values ...ruleset.Value) ruleset.Match {
	in := ruleset.In{Fields: []ruleset.Field{f}}
	for _, v := range values {
		in.Elements = append(in.Elements, ruleset.Element{Key: []ruleset.Value{v}})
	}
	return in
}

// apply brings the table to the desired state. Without Config.RequireEncryption it removes that of an earlier
// process, and tries that again with the next call if it fails. That is no fault: the kernel may have no nf_tables.
func (f *filter) apply(ctx context.Context, ownPrefixes []netip.Prefix) error {
	if f.cfg.RequireEncryption {
		if err := f.open(); err != nil {
			return err
		}
		return f.applier.Apply(ctx, f.table(ownPrefixes))
	}
	if !f.absent {
		err := f.remove(ctx)
		if f.absent = err == nil; err != nil {
			f.cfg.Logger.Debug("cannot remove the table of an earlier process", "table", f.cfg.FilterTable, "err", err)
		}
	}
	return nil
}

// verify repairs the table.
func (f *filter) verify(ctx context.Context) error {
	if f.applier == nil {
		return nil
	}
	return f.applier.Verify(ctx)
}

func (f *filter) open() (err error) {
	if f.applier != nil {
		return nil
	}
	cfg := applier.Config{Name: f.cfg.FilterTable, NetNS: f.cfg.NetNS}
	if f.cfg.RequireEncryption { // otherwise nothing about a table is worth a log
		cfg.Logger = f.cfg.Logger
	}
	f.applier, err = applier.New(cfg)
	return err
}

// remove deletes the table, and closes the connection.
func (f *filter) remove(ctx context.Context) error {
	if err := f.open(); err != nil {
		return err
	}
	if exists, err := f.applier.Exists(); err != nil || !exists {
		return errors.Join(err, f.close())
	}
	return errors.Join(f.applier.Teardown(ctx), f.close())
}

func (f *filter) close() error {
	if f.applier == nil {
		return nil
	}
	a := f.applier
	f.applier = nil
	return a.Close()
}

// plan returns the changes to the table as commands of nft.
func (f *filter) plan(ctx context.Context, ownPrefixes []netip.Prefix) (string, error) {
	if !f.cfg.RequireEncryption {
		return f.planRemoval()
	}
	c, err := applier.Compare(ctx, f.cfg.NetNS, f.table(ownPrefixes))
	return c.Changes, err
}

// planRemoval returns the command that deletes the table; empty if there is none.
func (f *filter) planRemoval() (string, error) {
	if f.applier == nil {
		defer func() { _ = f.close() }()
	}
	if err := f.open(); err != nil {
		return "", err
	}
	exists, err := f.applier.Exists()
	if err != nil || !exists {
		return "", err
	}
	return "delete table inet " + f.cfg.FilterTable + "\n", nil
}

// findOwnPrefixes returns the prefixes of this node that other nodes send to encrypted, sorted and disjoint. It also
// sets s.ownPrefixes.
func (s *state) findOwnPrefixes() (list []netip.Prefix) {
	if !s.cfg.RequireEncryption {
		return nil
	}
	s.ownPrefixes = map[netip.Prefix]struct{}{}
	for _, dst := range slices.SortedFunc(maps.Keys(s.routes), dataplane.ComparePrefixes) {
		r := s.routes[dst]
		switch {
		case r.Type == dataplane.RouteBlackhole, r.Type == dataplane.RouteLocalWorkload,
			r.Type == dataplane.RouteLocalTunnel && s.isDeviceAddress(dst.Addr()),
			r.Type == dataplane.RouteLocalHost && s.cfg.HostEncryption:
			if hasShorterPrefix(s.ownPrefixes, dst) {
				continue
			}
			s.ownPrefixes[dst] = struct{}{}
			list = append(list, dst)
		}
	}
	return list
}

// isDeviceAddress reports whether this node's devices have an address.
func (s *state) isDeviceAddress(a netip.Addr) bool {
	n := s.nodes[s.cfg.Node]
	return n != nil && slices.Contains(n.WireguardAddresses, a)
}
