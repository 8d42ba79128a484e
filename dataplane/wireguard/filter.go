// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"syscall"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// filter programs the nftables table of Config.RequireEncryption.
type filter struct {
	cfg     *Config
	applier *applier.Applier // nil if it is not open
	// absent is set once no table of an earlier process is left.
	absent bool
	// own are the prefixes of the last apply or add. Before the first one, readOwn sets it to those
	// of an earlier process, and then sets read.
	own  ownPrefixes
	read bool
}

// priority is that of NF_IP_PRI_RAW, before connection tracking. natPriority is the next one after
// NF_IP_PRI_NAT_DST (-100), the translation of destinations.
const priority, natPriority = -300, -99

// Numbers of the kernel.
const (
	nfprotoIPv4, nfprotoIPv6 = 2, 10
	protocolUDP              = 17
	protocolICMPv6           = 58
	loopback                 = "lo"
	// Router solicitation is the first and redirect the last type of neighbour discovery (RFC
	// 4861). Nodes send it unencrypted.
	routerSolicitation, redirect = 133, 137
)

// ownSetName is the name of the sets of the own encrypted prefixes, without the IP version.
const ownSetName = "own"

// filterFamily has the constants of an IP version in the table.
type filterFamily struct {
	version         int
	number          uint8 // NFPROTO_IPV4 or NFPROTO_IPV6
	typ             ruleset.Type
	daddr, original ruleset.Field
}

func filterFamilies() []filterFamily {
	return []filterFamily{
		{4, nfprotoIPv4, ruleset.TypeIPv4, ruleset.IPDaddr, ruleset.CtOriginalDaddr},
		{6, nfprotoIPv6, ruleset.TypeIPv6, ruleset.IP6Daddr, ruleset.CtOriginalDaddr6},
	}
}

// table returns the nftables table. The table drops a packet if all of this holds:
//
//   - The packet did not enter by a WireGuard device.
//   - The packet's destination is in one of the own prefixes.
//   - This node's route to the packet's source is over a WireGuard device.
//
// The chain called translated checks the same after the translation of the destination.
func (f *filter) table(own ownPrefixes) *ruleset.Table {
	var names []ruleset.Value
	for _, d := range f.cfg.Devices {
		names = append(names, ruleset.Ifname(d.Name))
	}
	encrypted := rule(oneOf(ruleset.IIFName, append(slices.Clone(names), ruleset.Ifname(loopback))...))
	raw := prerouting("prerouting", priority)
	raw.Rules = append([]ruleset.Rule{encrypted}, f.hostRules()...)
	translated := prerouting("translated", natPriority)
	translated.Rules = []ruleset.Rule{encrypted}
	// Packets without a connection, such as those of neighbour discovery, have no status and do not
	// match.
	isTranslated := equals(ruleset.CtStatus, ruleset.Uint32(ruleset.CtSNAT|ruleset.CtDNAT))
	t := &ruleset.Table{Name: f.cfg.FilterTable, Chains: []*ruleset.Chain{raw, translated}}
	for _, family := range filterFamilies() {
		ownSet := family.set(ownSetName, own.encrypted)
		t.Sets = append(t.Sets, ownSet)
		if !f.cfg.HostEncryption { // other nodes send unencrypted packets to these addresses, as to a NodePort
			hosts := family.set("hosts", own.hosts)
			t.Sets = append(t.Sets, hosts)
			translated.Rules = append(translated.Rules, rule(
				equals(ruleset.NFProto, ruleset.Byte(family.number)),
				ruleset.Lookup{Fields: []ruleset.Field{family.original}, Set: hosts.Name},
			))
		}
		drop := ruleset.Rule{
			Matches: []ruleset.Match{
				equals(ruleset.NFProto, ruleset.Byte(family.number)),
				ruleset.Lookup{Fields: []ruleset.Field{family.daddr}, Set: ownSet.Name},
				oneOf(ruleset.FibSaddrOIFName, names...),
			},
			Statements: []ruleset.Statement{ruleset.Counter{}, ruleset.Verdict{Kind: ruleset.Drop}},
			Comment:    "unencrypted packet from a node that encrypts",
		}
		raw.Rules = append(raw.Rules, drop)
		drop.Matches = append([]ruleset.Match{isTranslated}, drop.Matches...)
		translated.Rules = append(translated.Rules, drop)
	}
	return t
}

// hostRules returns the rules that HostEncryption needs. These rules accept neighbour discovery and
// the outer, encrypted packets. Nodes send both kinds of packets by other interfaces, although the
// route to the address of a node is over a WireGuard device.
func (f *filter) hostRules() []ruleset.Rule {
	if !f.cfg.HostEncryption {
		return nil
	}
	var ports []ruleset.Value
	for _, d := range f.cfg.Devices {
		ports = append(ports, ruleset.Port(d.Port))
	}
	return []ruleset.Rule{
		rule(
			equals(ruleset.NFProto, ruleset.Byte(nfprotoIPv6)), equals(ruleset.L4Proto, ruleset.Byte(protocolICMPv6)),
			ruleset.Compare{
				Field: ruleset.ICMPv6Type, Value: ruleset.Byte(routerSolicitation), Last: ruleset.Byte(redirect),
			},
		),
		rule(
			equals(ruleset.FibDaddrType, ruleset.Uint32(ruleset.FibTypeLocal)),
			equals(ruleset.L4Proto, ruleset.Byte(protocolUDP)), oneOf(ruleset.Dport, ports...),
		),
	}
}

// set returns the set of the prefixes that are of the family.
func (f filterFamily) set(name string, prefixes []netip.Prefix) *ruleset.Set {
	s := &ruleset.Set{Name: fmt.Sprintf("%s%d", name, f.version), Key: []ruleset.Type{f.typ}, Interval: true}
	for _, p := range prefixes {
		if version(p.Addr()) == f.version {
			s.Elements = append(s.Elements, ruleset.Element{
				Key: []ruleset.Value{ruleset.Addr(p.Addr())}, Last: ruleset.Addr(ruleset.LastAddr(p)),
			})
		}
	}
	return s
}

func prerouting(name string, priority int) *ruleset.Chain {
	accept := ruleset.Verdict{Kind: ruleset.Accept}
	return &ruleset.Chain{
		Name: name, Hook: &ruleset.Hook{Point: ruleset.Prerouting, Priority: priority, Policy: accept},
	}
}

// rule returns a rule that accepts.
func rule(matches ...ruleset.Match) ruleset.Rule {
	return ruleset.Rule{Matches: matches, Statements: []ruleset.Statement{ruleset.Verdict{Kind: ruleset.Accept}}}
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

// add does the same as apply, but removes no encrypted prefix that this node no longer has. It
// keeps such a prefix because later dataplanes may still have routes to workloads in it. The next
// apply removes the prefix. This holds for the prefixes of an earlier process, too.
func (f *filter) add(ctx context.Context, own ownPrefixes) error {
	if err := f.readOwn(ctx); err != nil {
		return err
	}
	all := append(slices.Clone(own.encrypted), f.own.encrypted...)
	slices.SortFunc(all, dataplane.ComparePrefixes)
	own.encrypted = nil
	seen := map[netip.Prefix]struct{}{}
	for _, p := range slices.Compact(all) { // keep disjoint prefixes
		if !hasShorterPrefix(seen, p) {
			seen[p] = struct{}{}
			own.encrypted = append(own.encrypted, p)
		}
	}
	return f.apply(ctx, own)
}

// readOwn reads the encrypted prefixes of an earlier process from the kernel.
func (f *filter) readOwn(ctx context.Context) error {
	if f.read || !f.cfg.RequireEncryption {
		return nil
	}
	t := &ruleset.Table{Name: f.cfg.FilterTable}
	for _, family := range filterFamilies() {
		t.Sets = append(t.Sets, family.set(ownSetName, nil))
	}
	sets, err := applier.Elements(ctx, f.cfg.NetNS, t)
	if err != nil {
		return err
	}
	for _, elements := range sets {
		for _, e := range elements {
			if p, ok := elementPrefix(e); ok {
				f.own.encrypted = append(f.own.encrypted, p)
			}
		}
	}
	f.read = true
	return nil
}

// elementPrefix returns the longest prefix that contains an element of a set of addresses.
func elementPrefix(e ruleset.Element) (netip.Prefix, bool) {
	first, ok := netip.AddrFromSlice(e.Key[0])
	last, isRange := netip.AddrFromSlice(e.Last)
	if !isRange {
		last = first
	}
	p := netip.PrefixFrom(first, first.BitLen())
	for ok && p.Bits() > 0 && !p.Contains(last) {
		p = netip.PrefixFrom(first, p.Bits()-1).Masked()
	}
	return p, ok
}

// apply brings the table to the desired state. Without Config.RequireEncryption it removes the
// table of an earlier process. If that fails, it returns no error, because the kernel may have no
// nf_tables. The next call tries again.
func (f *filter) apply(ctx context.Context, own ownPrefixes) error {
	f.own = own
	if f.cfg.RequireEncryption {
		if err := f.open(); err != nil {
			return err
		}
		return f.explain(f.applier.Apply(ctx, f.table(own)))
	}
	if !f.absent {
		err := f.remove(ctx)
		if f.absent = err == nil; err != nil {
			f.cfg.Logger.Debug("cannot remove the table of an earlier process", "table", f.cfg.FilterTable, "err", err)
		}
	}
	return nil
}

// explain returns a *dataplane.FeatureError if the kernel does not know the expression fib. If an
// expression is unknown, the kernel's error is ENOENT, and it does not make the table.
func (f *filter) explain(err error) error {
	if !errors.Is(err, syscall.ENOENT) {
		return err
	}
	if exists, existsErr := f.applier.Exists(); existsErr != nil || exists {
		return err
	}
	return &dataplane.FeatureError{
		Feature: "route lookups in nftables, which RequireEncryption needs", Since: "4.10", Module: "nft_fib_inet",
		Err: err,
	}
}

// verify compares the table with the kernel and repairs it.
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
	if f.cfg.RequireEncryption { // otherwise the table is removed, and nothing is logged
		cfg.Logger = f.cfg.Logger
	}
	f.applier, err = applier.New(cfg)
	return err
}

// remove deletes the table, and closes the connection.
func (f *filter) remove(ctx context.Context) error {
	f.own, f.read = ownPrefixes{}, false
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
func (f *filter) plan(ctx context.Context, own ownPrefixes) (string, error) {
	if !f.cfg.RequireEncryption {
		return f.planRemoval()
	}
	c, err := applier.Compare(ctx, f.cfg.NetNS, f.table(own))
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

// ownPrefixes are the prefixes of this node to which other nodes encrypt, and its addresses to
// which they send unencrypted packets. Both are sorted.
type ownPrefixes struct{ encrypted, hosts []netip.Prefix }

// findOwnPrefixes returns the own prefixes, and sets s.ownEncrypted. The encrypted ones are
// disjoint.
func (s *state) findOwnPrefixes() (own ownPrefixes) {
	if !s.cfg.RequireEncryption {
		return own
	}
	s.ownEncrypted = map[netip.Prefix]struct{}{}
	for _, dst := range slices.SortedFunc(maps.Keys(s.routes), dataplane.ComparePrefixes) {
		r := s.routes[dst]
		switch {
		case r.Type == dataplane.RouteLocalHost && !s.cfg.HostEncryption:
			own.hosts = append(own.hosts, dst)
		case r.Type == dataplane.RouteBlackhole, r.Type == dataplane.RouteLocalWorkload,
			r.Type == dataplane.RouteLocalTunnel && s.isDeviceAddress(dst.Addr()), r.Type == dataplane.RouteLocalHost:
			if hasShorterPrefix(s.ownEncrypted, dst) {
				continue
			}
			s.ownEncrypted[dst] = struct{}{}
			own.encrypted = append(own.encrypted, dst)
		}
	}
	return own
}

// isDeviceAddress reports whether a is an address of this node's WireGuard devices.
func (s *state) isDeviceAddress(a netip.Addr) bool {
	n := s.nodes[s.cfg.Node]
	return n != nil && slices.Contains(n.WireguardAddresses, a)
}
