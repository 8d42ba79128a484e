// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// When an address changes hands, its connections end (S168). The table accepts established
// connections before policy, so they are ended between two transactions:
//
//	remove old owner ─▶ grace period ─▶ end connections ─▶ admit new owner
//	(new owner drops)   no packet of
//	                    the old owner
//	                    is in flight
//
// In the first transaction each new owner is down. One transaction suffices for an address without a
// new owner; its connections end after it. One also suffices for an address without a former owner
// and without connections. If such an address has connections, another host used it and may still
// do so. It is then treated as moved.
//
// The same holds for a prefix that moves from the AllowedSources of one endpoint to those of
// another.

// addressEnder ends the connections of addresses.
type addressEnder interface {
	// EndHosts ends the connections whose packets the addresses send or receive.
	EndHosts(ctx context.Context, addresses ...netip.Addr) (int, error)
	// EndAddresses also ends connections whose destination before translation, or source after it,
	// is one of the addresses.
	EndAddresses(ctx context.Context, addresses ...netip.Addr) (int, error)
	// EndHostsFunc is EndHosts for the addresses for which wanted returns true.
	EndHostsFunc(ctx context.Context, wanted func(netip.Addr) bool) (int, error)
	Close() error
}

var _ addressEnder = (*conntrack.Conn)(nil)

// programEndpoints programs the desired state, and ends the connections of addresses that change
// hands. done reports whether the kernel has the desired state except for refused objects.
func (d *Dataplane) programEndpoints(ctx context.Context) (errs []error, done bool) {
	all, gained, taken := d.owners.moves()
	newOwners := d.owners.newOwnersOf(gained)
	moved := gained
	ended, failures := 0, []error(nil)
	if !taken {
		ended, failures = d.endConnections(ctx, moved)
	}
	if taken || ended > 0 {
		d.withhold(newOwners)
		if errs, done = d.flush(ctx); !done {
			return errs, false
		}
		d.synchronize()
		moved = all
		_, failures = d.endConnections(ctx, moved)
	}
	if len(failures) == 0 {
		d.owners.ended(moved)
		newOwners = nil
	}
	d.withhold(newOwners)
	if errs, done = d.flush(ctx); !done {
		return append(errs, failures...), false
	}
	if len(failures) == 0 {
		rest, _, _ := d.owners.moves()
		if len(rest.prefixes) > 0 { // a packet under way may still create a connection
			d.synchronize()
		}
		if _, failures = d.endConnections(ctx, rest); len(failures) == 0 {
			d.owners.ended(rest)
		}
		if len(failures) == 0 {
			d.owners.admitted()
		}
	}
	return append(errs, failures...), true
}

// adoptOwners reads the owners of addresses from the table in the kernel. Addresses may have changed
// hands while no process ran, or a process may have been killed during a handover.
//
// Errors: *dataplane.ApplyError.
func (d *Dataplane) adoptOwners() error {
	if d.adopted {
		return nil
	}
	before := map[netip.Addr][]string{}
	exists := false
	for _, set := range render.SourceSets() {
		err := d.applier.Keys(set, func(key []byte) {
			if len(key) < ruleset.IfnameSize {
				return // a set of another type has that name
			}
			name := bytes.TrimRight(key[:ruleset.IfnameSize], "\x00")
			if a, ok := netip.AddrFromSlice(key[ruleset.IfnameSize:]); ok {
				before[a] = append(before[a], string(name))
			}
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return &dataplane.ApplyError{Backend: backend, Op: "read owners of addresses", Err: err}
		}
		exists = true
	}
	if exists {
		d.owners.adopt(before)
	}
	d.adopted = true
	return nil
}

// withhold makes the renderer treat exactly these endpoints as down.
func (d *Dataplane) withhold(keys []policy.Key) {
	var b dataplane.Batch
	for _, key := range d.withheld {
		if e := d.owners.endpoints[key]; e != nil && !slices.Contains(keys, key) {
			b.Events = append(b.Events, &dataplane.EndpointUpdate{Key: key, Endpoint: e})
		}
	}
	for _, key := range keys {
		withheld := *d.owners.endpoints[key]
		withheld.Down = true
		b.Events = append(b.Events, &dataplane.EndpointUpdate{Key: key, Endpoint: &withheld})
	}
	d.withheld = keys
	d.renderer.Update(b)
}

// endConnections ends the connections of moved addresses and prefixes. If there were any, a packet
// in flight may still belong to one, or create another. So endConnections waits for a grace period
// and ends connections again.
//
// Errors: *dataplane.ApplyError for each address and prefix, with the key of its new owner, or of
// the former one; the context's.
func (d *Dataplane) endConnections(ctx context.Context, moved movedSources) (ended int, errs []error) {
	if moved.empty() {
		return 0, nil
	}
	ended, err := d.endOnce(ctx, moved)
	if err == nil && ended > 0 {
		d.synchronize()
		_, err = d.endOnce(ctx, moved)
	}
	if err == nil {
		return ended, nil
	}
	if ctx.Err() != nil {
		return 0, []error{ctx.Err()}
	}
	report := func(of fmt.Stringer, keys []policy.Key, former func() policy.Key) {
		if len(keys) == 0 {
			keys = append(keys, former())
		}
		for _, key := range keys {
			op := fmt.Sprintf("end earlier connections of %s", of)
			errs = append(errs, &dataplane.ApplyError{Backend: backend, Op: op, Object: key, Err: err})
		}
	}
	for _, a := range moved.addresses {
		keys := d.owners.newOwnersOf(movedSources{addresses: []netip.Addr{a}})
		report(a, keys, func() policy.Key { return d.owners.moved[a].former[0].key })
	}
	for _, p := range moved.prefixes {
		report(p, d.owners.gainers(p), func() policy.Key { return d.owners.lost[p].former[0].key })
	}
	return 0, errs
}

// endOnce ends the present connections of the addresses and prefixes.
func (d *Dataplane) endOnce(ctx context.Context, moved movedSources) (ended int, err error) {
	var hosts, translated []netip.Addr
	for _, a := range moved.addresses {
		if d.owners.moved[a].floating {
			translated = append(translated, a)
		} else {
			hosts = append(hosts, a)
		}
	}
	ended, err = d.ender.EndHosts(ctx, hosts...)
	if err == nil {
		var more int
		more, err = d.ender.EndAddresses(ctx, translated...)
		ended += more
	}
	if err == nil && len(moved.prefixes) > 0 {
		var more int
		more, err = d.ender.EndHostsFunc(ctx, d.owners.sentFrom(moved.prefixes))
		ended += more
	}
	d.endedAddresses.Add(uint64(ended))
	return ended, err
}

// synchronize waits for a grace period. If the kernel refuses that, a packet that is delayed for
// longer than a transaction takes may still use the previous generation of the rules.
func (d *Dataplane) synchronize() {
	if err := d.waitGrace(); err != nil {
		d.config.Logger.Debug("nftables: cannot wait for packets under way", "err", err)
	}
}
