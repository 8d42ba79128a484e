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
	// prepared is set once prepare has succeeded.
	prepared bool
	// last has the prefixes of the last call of apply. Before the first one, prepare sets it to the
	// prefixes of an earlier process.
	last filterPrefixes
}

// prepare must be called before the desired routes and rules are programmed: they may let more
// packets leave unencrypted, and the table must not drop these. The first call programs the rules
// of the options, with the prefixes of an earlier process and the new exempt ones. If no option
// needs the table, prepare removes it.
func (f *filter) prepare(ctx context.Context, p filterPrefixes) (err error) {
	switch {
	case !f.needed():
		return f.apply(ctx, p)
	case f.prepared:
		return nil
	}
	if f.last, err = f.readPrefixes(ctx); err != nil {
		return err
	}
	p.own, p.remote, p.exempt = f.lastOwn(p.hosts), f.last.remote, union(f.last.exempt, p.exempt)
	err = f.apply(ctx, p)
	f.prepared = err == nil
	return err
}

// mayDropOwn reports whether the table in the kernel may drop unencrypted packets of this node.
func (f *filter) mayDropOwn(ctx context.Context) bool {
	p, err := f.readPrefixes(ctx)
	return len(p.remote) > 0 || ignoreMissingNFTables(err) != nil
}

// add does the same as apply, but also keeps the last prefixes own and remote, even those of an
// earlier process. Later dataplanes may still have routes for them. The next apply removes them.
//
// If stale is set, the kernel may still have rules and throw routes of an earlier process, by which
// packets to remote prefixes leave unencrypted. The table must not drop these packets, so add
// changes neither remote nor exempt. The next apply changes them.
func (f *filter) add(ctx context.Context, p filterPrefixes, stale bool) error {
	p.own, p.remote = union(p.own, f.lastOwn(p.hosts)), union(p.remote, f.last.remote)
	if stale {
		p.remote, p.exempt = f.last.remote, f.last.exempt
	}
	return f.apply(ctx, p)
}

// lastOwn returns the last prefixes own without hosts. If an earlier process had HostEncryption,
// own contains hosts. Without HostEncryption, no rule accepts the encrypted packets that other
// nodes send to hosts. So hosts must leave own at once.
func (f *filter) lastOwn(hosts []netip.Prefix) []netip.Prefix {
	if len(hosts) == 0 {
		return f.last.own
	}
	return includedParts(f.last.own, hosts)
}

// shrinkRemote removes from the prefixes remote the addresses that are not in p.remote.
func (f *filter) shrinkRemote(ctx context.Context, p filterPrefixes) error {
	last := f.last
	if last.remote = intersection(last.remote, p.remote); slices.Equal(f.last.remote, last.remote) {
		return nil
	}
	return f.apply(ctx, last)
}

// readPrefixes reads the prefixes of the kernel's table, except hosts.
func (f *filter) readPrefixes(ctx context.Context) (p filterPrefixes, err error) {
	for name, list := range map[string]*[]netip.Prefix{
		ownSetName: &p.own, remoteSetName: &p.remote, exemptSetName: &p.exempt,
	} {
		t := &ruleset.Table{Name: f.cfg.FilterTable}
		for _, family := range filterFamilies() {
			t.Sets = append(t.Sets, family.set(name, nil))
		}
		sets, err := applier.Elements(ctx, f.cfg.NetNS, t)
		if err != nil {
			return filterPrefixes{}, err
		}
		for _, elements := range sets {
			*list = append(*list, elementPrefixes(elements)...)
		}
		slices.SortFunc(*list, dataplane.ComparePrefixes)
	}
	return p, nil
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

// remove deletes the table, and closes the connection.
func (f *filter) remove(ctx context.Context) error {
	f.last, f.prepared = filterPrefixes{}, false
	exists, err := f.exists()
	if exists {
		err = f.applier.Teardown(ctx)
	}
	f.absent = err == nil
	return errors.Join(err, f.close())
}

// exists reports whether the kernel has the table, and may open the connection.
func (f *filter) exists() (bool, error) {
	if err := f.open(); err != nil {
		return false, ignoreMissingNFTables(err)
	}
	exists, err := f.applier.Exists()
	return exists, ignoreMissingNFTables(err)
}

// ignoreMissingNFTables returns nil if the error is that of a kernel without nf_tables: there is no
// socket for the protocol (EPROTONOSUPPORT), no subsystem for a request (EINVAL), or none for a
// transaction (EOPNOTSUPP).
func ignoreMissingNFTables(err error) error {
	for _, missing := range []error{syscall.EPROTONOSUPPORT, syscall.EINVAL, syscall.EOPNOTSUPP} {
		if errors.Is(err, missing) {
			return nil
		}
	}
	return err
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
	exists, err := f.exists()
	if err != nil || !exists {
		return "", err
	}
	return "delete table inet " + f.cfg.FilterTable + "\n", nil
}
