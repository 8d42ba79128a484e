// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"syscall"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// filter programs the nftables table of Config.RequireEncryption and Config.HostEncryption.
type filter struct {
	cfg     *Config
	applier *applier.Applier // nil if it is not open
	// absent is set once no table of an earlier process is left.
	absent bool
	// last are the prefixes of the last change of the table, or, once read is set, those of an
	// earlier process.
	last           filterPrefixes
	read, prepared bool
}

// prepare must be called before the desired routes and rules are programmed, by which more packets
// may leave unencrypted. Until it has succeeded once, it reads the prefixes of an earlier process,
// adds the exempt prefixes, and removes what no option needs any more.
func (f *filter) prepare(ctx context.Context, p filterPrefixes) error {
	if !f.needed() {
		return f.apply(ctx, p)
	}
	if f.prepared {
		return nil
	}
	if err := f.readLast(ctx); err != nil {
		return err
	}
	p.own, p.remote, p.exempt = f.lastOwn(p.hosts), f.last.remote, union(f.last.exempt, p.exempt)
	err := f.apply(ctx, p)
	f.prepared = err == nil
	return err
}

// add does the same as apply, but keeps the last prefixes own and remote, too, even those of an
// earlier process. Later dataplanes may still have routes for them. The next apply removes them.
//
// If stale is set, the kernel may still have rules and throw routes of an earlier process, by which
// packets to remote prefixes leave unencrypted. In this case, add changes neither remote nor
// exempt, so that it drops no such packet. The next apply changes them.
func (f *filter) add(ctx context.Context, p filterPrefixes, stale bool) error {
	p.own, p.remote = union(p.own, f.lastOwn(p.hosts)), union(p.remote, f.last.remote)
	if stale {
		p.remote, p.exempt = f.last.remote, f.last.exempt
	}
	return f.apply(ctx, p)
}

// lastOwn returns the last prefixes own without hosts. They are in own if HostEncryption was set:
// then rules accept the encrypted packets that other nodes send to these addresses.
func (f *filter) lastOwn(hosts []netip.Prefix) []netip.Prefix {
	if len(hosts) == 0 {
		return f.last.own
	}
	return includedParts(f.last.own, hosts)
}

// shrinkRemote removes the addresses from the prefixes remote that p does not have.
func (f *filter) shrinkRemote(ctx context.Context, p filterPrefixes) error {
	last := f.last
	if last.remote = intersection(last.remote, p.remote); slices.Equal(f.last.remote, last.remote) {
		return nil
	}
	return f.apply(ctx, last)
}

// readLast reads the prefixes of an earlier process from the kernel, except hosts.
func (f *filter) readLast(ctx context.Context) error {
	if f.read {
		return nil
	}
	var last filterPrefixes
	for name, list := range map[string]*[]netip.Prefix{
		ownSetName: &last.own, remoteSetName: &last.remote, exemptSetName: &last.exempt,
	} {
		t := &ruleset.Table{Name: f.cfg.FilterTable}
		for _, family := range filterFamilies() {
			t.Sets = append(t.Sets, family.set(name, nil))
		}
		sets, err := applier.Elements(ctx, f.cfg.NetNS, t)
		if err != nil {
			return err
		}
		for _, elements := range sets {
			*list = append(*list, elementPrefixes(elements)...)
		}
		slices.SortFunc(*list, dataplane.ComparePrefixes)
	}
	f.last, f.read = last, true
	return nil
}

// elementPrefixes returns the prefixes of the elements of a set of addresses.
func elementPrefixes(elements []ruleset.Element) (list []netip.Prefix) {
	for _, e := range elements {
		first, ok := netip.AddrFromSlice(e.Key[0])
		last, isRange := netip.AddrFromSlice(e.Last)
		if !isRange {
			last = first
		}
		for ok && first.IsValid() && first.Compare(last) <= 0 {
			p := netip.PrefixFrom(first, first.BitLen())
			for p.Bits() > 0 {
				shorter := netip.PrefixFrom(first, p.Bits()-1)
				if shorter != shorter.Masked() || ruleset.LastAddr(shorter).Compare(last) > 0 {
					break
				}
				p = shorter
			}
			list = append(list, p)
			first = ruleset.LastAddr(p).Next()
		}
	}
	return list
}

// needed reports whether an option needs the table.
func (f *filter) needed() bool { return f.cfg.RequireEncryption || f.cfg.HostEncryption }

// apply brings the table to the desired state. If no option needs the table, it removes the table
// of an earlier process.
func (f *filter) apply(ctx context.Context, p filterPrefixes) error {
	f.last = p
	if f.needed() {
		if err := f.open(); err != nil {
			return err
		}
		return f.explain(f.applier.Apply(ctx, f.table(p)))
	}
	if f.absent {
		return nil
	}
	return f.remove(ctx)
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
		Feature: "route lookups in nftables, which RequireEncryption and HostEncryption need", Since: "4.10",
		Module: "nft_fib_inet",
		Err:    err,
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
	if f.needed() { // otherwise the table is removed, and nothing is logged
		cfg.Logger = f.cfg.Logger
	}
	f.applier, err = applier.New(cfg)
	return err
}

// remove deletes the table, and closes the connection. If no option needs the table, it is no error
// that the kernel cannot be asked for the table, because the kernel may have no nf_tables.
func (f *filter) remove(ctx context.Context) error {
	f.last, f.read, f.prepared = filterPrefixes{}, false, false
	err := f.open()
	exists := false
	if err == nil {
		exists, err = f.applier.Exists()
	}
	if err != nil && !f.needed() {
		f.cfg.Logger.Debug("cannot look for the table of an earlier process", "table", f.cfg.FilterTable, "err", err)
		return f.close()
	}
	if exists {
		err = f.applier.Teardown(ctx)
	}
	f.absent = err == nil
	return errors.Join(err, f.close())
}

// exists reports whether the kernel has the table. It reports false if that cannot be found out.
func (f *filter) exists() bool {
	if f.applier == nil {
		defer func() { _ = f.close() }()
	}
	if err := f.open(); err != nil {
		return false
	}
	exists, err := f.applier.Exists()
	return exists && err == nil
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
func (f *filter) plan(ctx context.Context, p filterPrefixes) (string, error) {
	if !f.needed() {
		return f.planRemoval()
	}
	c, err := applier.Compare(ctx, f.cfg.NetNS, f.table(p))
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
