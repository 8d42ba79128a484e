// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/owners"
	"github.com/wayleave/wayleave/dataplane/nft/internal/rcu"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// addressEnder ends connections of addresses.
type addressEnder interface {
	// EndHosts ends connections with packets that one of the addresses sends or receives.
	EndHosts(ctx context.Context, addresses ...netip.Addr) (int, error)
	// EndAddresses does what EndHosts does. It also ends connections where one of the addresses is
	// the destination before translation, or the source after it.
	EndAddresses(ctx context.Context, addresses ...netip.Addr) (int, error)
	// EndHostsFunc does what EndHosts does, for the addresses for which wanted returns true.
	EndHostsFunc(ctx context.Context, wanted func(netip.Addr) bool) (int, error)
	Close() error
}

var _ addressEnder = (*conntrack.Conn)(nil)

// handover programs addresses that move to another endpoint, and ends their connections. Until the
// connections have ended, the new owners are withheld: the renderer treats them as down.
type handover struct {
	// Tracker maps addresses to endpoints.
	*owners.Tracker
	writer    *writer
	logger    *slog.Logger
	ender     addressEnder
	waitGrace func() error // rcu.Synchronize
	withheld  []policy.Key
	// adopted is set once the Tracker has the owners of the table that an earlier process left.
	adopted bool
	// ended counts the connections that were ended.
	ended atomic.Uint64
}

var _ owners.Kernel = (*handover)(nil)

func newHandover(w *writer, logger *slog.Logger) *handover {
	return &handover{Tracker: owners.New(), writer: w, logger: logger, waitGrace: rcu.Synchronize}
}

// reset removes all endpoints and owners.
func (h *handover) reset() { h.Tracker, h.withheld, h.adopted = owners.New(), nil, false }

// run programs the endpoints and ends connections, in the order that Tracker.Handover defines.
func (h *handover) run(ctx context.Context) (errs []error, done bool) { return h.Handover(ctx, h) }

// Program implements owners.Kernel.
func (h *handover) Program(ctx context.Context, withheld []policy.Key) (errs []error, done bool) {
	h.withhold(withheld)
	return h.writer.flush(ctx)
}

// End implements owners.Kernel.
func (h *handover) End(ctx context.Context, selected owners.Connections) (ended int, err error) {
	ended, err = h.ender.EndHosts(ctx, selected.Hosts...)
	if err == nil {
		var more int
		more, err = h.ender.EndAddresses(ctx, selected.Floating...)
		ended += more
	}
	if err == nil && selected.Sources != nil {
		var more int
		more, err = h.ender.EndHostsFunc(ctx, selected.Sources)
		ended += more
	}
	h.ended.Add(uint64(ended))
	return ended, err
}

// WaitGrace waits for a grace period: until no packet under way uses rules from before the last
// transaction. If the kernel refuses this wait, WaitGrace returns at once. A delayed packet may
// then still use those old rules, even after the next transaction.
func (h *handover) WaitGrace() {
	if err := h.waitGrace(); err != nil {
		h.logger.Debug("nftables: cannot wait for packets under way", "err", err)
	}
}

// adopt reads the owners of addresses from the table in the kernel. Addresses may have moved while
// no process ran, or a process may have been killed during a handover.
//
// Errors: *dataplane.ApplyError.
func (h *handover) adopt() error {
	if h.adopted {
		return nil
	}
	before, bridges := map[netip.Addr][]string{}, h.writer.renderer.Config().Bridges
	exists := false
	for _, set := range render.SourceSets() {
		err := h.writer.applier.Keys(set, func(key []byte) {
			if len(key) < ruleset.IfnameSize {
				return // a set of another type has that name
			}
			name := string(bytes.TrimRight(key[:ruleset.IfnameSize], "\x00"))
			a, ok := netip.AddrFromSlice(key[ruleset.IfnameSize:])
			if ok && !slices.Contains(bridges, name) { // the set has these addresses with the port, too
				before[a] = append(before[a], name)
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
		h.Adopt(before)
	}
	h.adopted = true
	return nil
}

// withhold makes the renderer treat the endpoints with these keys as down. It no longer treats an
// endpoint as down if the previous call had its key and this call does not.
func (h *handover) withhold(keys []policy.Key) {
	var b dataplane.Batch
	for _, key := range h.withheld {
		if e := h.Endpoint(key); e != nil && !slices.Contains(keys, key) {
			b.Events = append(b.Events, &dataplane.EndpointUpdate{Key: key, Endpoint: e})
		}
	}
	for _, key := range keys {
		withheld := *h.Endpoint(key)
		withheld.Down = true
		b.Events = append(b.Events, &dataplane.EndpointUpdate{Key: key, Endpoint: &withheld})
	}
	h.withheld = keys
	h.writer.renderer.Update(b)
}
