// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/owners"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

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

// kernel does the steps of a handover for a Dataplane.
type kernel struct{ d *Dataplane }

var _ owners.Kernel = kernel{}

// Program implements owners.Kernel.
func (k kernel) Program(ctx context.Context, withheld []policy.Key) (errs []error, done bool) {
	k.d.withhold(withheld)
	return k.d.flush(ctx)
}

// End implements owners.Kernel.
func (k kernel) End(ctx context.Context, selected owners.Connections) (ended int, err error) {
	ended, err = k.d.ender.EndHosts(ctx, selected.Hosts...)
	if err == nil {
		var more int
		more, err = k.d.ender.EndAddresses(ctx, selected.Floating...)
		ended += more
	}
	if err == nil && selected.Sources != nil {
		var more int
		more, err = k.d.ender.EndHostsFunc(ctx, selected.Sources)
		ended += more
	}
	k.d.endedAddresses.Add(uint64(ended))
	return ended, err
}

// WaitGrace implements owners.Kernel. If the kernel refuses to wait, a packet that is delayed for
// longer than a transaction takes may still use the previous generation of the rules.
func (k kernel) WaitGrace() {
	if err := k.d.waitGrace(); err != nil {
		k.d.config.Logger.Debug("nftables: cannot wait for packets under way", "err", err)
	}
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
		d.owners.Adopt(before)
	}
	d.adopted = true
	return nil
}

// withhold makes the renderer treat exactly these endpoints as down.
func (d *Dataplane) withhold(keys []policy.Key) {
	var b dataplane.Batch
	for _, key := range d.withheld {
		if e := d.owners.Endpoint(key); e != nil && !slices.Contains(keys, key) {
			b.Events = append(b.Events, &dataplane.EndpointUpdate{Key: key, Endpoint: e})
		}
	}
	for _, key := range keys {
		withheld := *d.owners.Endpoint(key)
		withheld.Down = true
		b.Events = append(b.Events, &dataplane.EndpointUpdate{Key: key, Endpoint: &withheld})
	}
	d.withheld = keys
	d.renderer.Update(b)
}
