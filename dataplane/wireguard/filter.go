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
	// last are the prefixes of the last apply or add. Before the first one, readLast reads own and
	// remote of an earlier process into last, and sets read.
	last filterPrefixes
	read bool
}

// add does the same as apply, but keeps the last prefixes own and remote, too, even those of an
// earlier process. Later dataplanes may still have routes for them. The next apply removes them.
func (f *filter) add(ctx context.Context, p filterPrefixes) error {
	if err := f.readLast(ctx); err != nil {
		return err
	}
	p.own, p.remote = union(p.own, f.last.own), union(p.remote, f.last.remote)
	return f.apply(ctx, p)
}

// setRemote does the same as apply for the prefixes remote, and keeps the others.
func (f *filter) setRemote(ctx context.Context, p filterPrefixes) error {
	if slices.Equal(f.last.remote, p.remote) {
		return nil
	}
	last := f.last
	last.remote = p.remote
	return f.apply(ctx, last)
}

// union returns the prefixes of both lists, sorted, without those that are inside another one.
func union(a, b []netip.Prefix) (list []netip.Prefix) {
	all := append(slices.Clone(a), b...)
	slices.SortFunc(all, dataplane.ComparePrefixes)
	seen := map[netip.Prefix]struct{}{}
	for _, p := range slices.Compact(all) {
		if !hasShorterPrefix(seen, p) {
			seen[p] = struct{}{}
			list = append(list, p)
		}
	}
	return list
}

// readLast reads the prefixes own and remote of an earlier process from the kernel.
func (f *filter) readLast(ctx context.Context) error {
	if f.read || !f.needed() {
		return nil
	}
	t := &ruleset.Table{Name: f.cfg.FilterTable}
	for _, family := range filterFamilies() {
		t.Sets = append(t.Sets, family.set(ownSetName, nil), family.set(remoteSetName, nil))
	}
	sets, err := applier.Elements(ctx, f.cfg.NetNS, t)
	if err != nil {
		return err
	}
	for _, family := range filterFamilies() {
		f.last.own = append(f.last.own, elementPrefixes(sets[family.setName(ownSetName)])...)
		f.last.remote = append(f.last.remote, elementPrefixes(sets[family.setName(remoteSetName)])...)
	}
	f.read = true
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
// of an earlier process. If that fails, it returns no error, because the kernel may have no
// nf_tables. The next call tries again.
func (f *filter) apply(ctx context.Context, p filterPrefixes) error {
	f.last = p
	if f.needed() {
		if err := f.open(); err != nil {
			return err
		}
		return f.explain(f.applier.Apply(ctx, f.table(p)))
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

// remove deletes the table, and closes the connection.
func (f *filter) remove(ctx context.Context) error {
	f.last, f.read = filterPrefixes{}, false
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
